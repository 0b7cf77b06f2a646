"""Apply a trained model: a dataset enters, a Parquet table with one row a point leaves.

Columns: `event_id`, `sector`, the point's number in the source (`hit_id` or `index_in_source`, as the dataset
names it); where the model embeds, the point's `embedding` and `track_id` (−1 for none), unique in the event:
of overlapping sectors, each track is kept in the one that has most of it; where the model classifies, its
`score`, the output between 0 and 1, and `weight`, its probability of the label, calibrated on the validation
split. Of tracks whose hits have positions, a second file has the helices.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from torch import Tensor

from hepdata.features.sectors import Sectors
from hepdata.loader.batch import Batch
from hepdata.loader.dataset import Dataset
from hepdata.progress import Progress, Silent, counting
from hepdata.storage.atomic import write_atomically
from hept.evaluation.inference import run_model
from hept.evaluation.truth import read_columns
from hept.model.dataset_checks import find_target
from hept.model.trained import TrainedModel
from hept.tracks.finder import Clustering, Columns, find_tracks
from hept.tracks.table import LAYOUT as FITS
from hept.tracks.table import fit_tracks, keep_home, name_fits, tabulate_fits
from hept.tracks.tree import number_labels


@dataclass(frozen=True)
class Prediction:
    """What was written.

    Attributes:
        out: The Parquet file.
        n_clouds: Clouds in it.
        n_points: Rows.
        n_tracks: Tracks found; None where the model does not embed.
    """

    out: Path
    n_clouds: int
    n_points: int
    n_tracks: int | None


def predict(
    trained: TrainedModel,
    dataset: Dataset,
    out: Path,
    *,
    split: str | None = None,
    clustering: Clustering | None = None,
    progress: Progress | None = None,
) -> Prediction:
    """Write a model's output for every point of a dataset, or of one split; see `hept.predict`.

    Truth is not needed.
    """
    splits = [split] if split is not None else [name for name in dataset.splits if len(dataset[name])]
    answers = [run_model(trained, dataset, name) for name in splits or dataset.splits[:1]]
    point_id, pt = find_target(dataset).point_id, find_target(dataset).pt
    layout = _layout(point_id, is_embedding=trained.is_embedding)
    listener = progress or Silent()
    n_all = sum(len(dataset[name]) for name in splits)
    n_clouds = n_points = n_tracks = 0
    numbers = _Numbers(find_sectors(dataset))
    with counting(listener, "predicting", n_all, "cloud"), ExitStack() as files:
        writer = files.enter_context(_open_table(files, out, layout))
        fits = files.enter_context(_open_table(files, name_fits(out), FITS)) if trained.is_embedding else None
        for result, batch in chain.from_iterable(answers):
            label = weight = None
            if trained.is_embedding:
                columns = read_columns(batch)
                label = find_tracks(result.cpu().double().numpy(), columns, clustering or Clustering())
                label, n_found = numbers.number(label, columns, batch)
                fitted = fit_tracks(label, columns, (clustering or Clustering()).steps.error)
                if fits is not None and fitted is not None:
                    fits.write_table(tabulate_fits(int(batch.event_id[0]), fitted))
                n_tracks += n_found
            else:
                weight = _weigh(trained, result, batch, pt)
            table = _rows(result, batch, label, layout, weight)
            writer.write_table(table)
            n_clouds, n_points = n_clouds + 1, n_points + len(table)
            listener.advance()
    return Prediction(out, n_clouds, n_points, n_tracks if trained.is_embedding else None)


def _open_table(files: ExitStack, path: Path, layout: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(files.enter_context(write_atomically(path)), layout, compression="zstd")


@dataclass
class _Numbers:
    """Numbers of tracks that are unique in an event, whose sectors follow one another."""

    sectors: Sectors
    event: int = -1
    n_before: int = 0

    def number(
        self, label: NDArray[np.int64], columns: Columns, batch: Batch
    ) -> tuple[NDArray[np.int64], int]:
        """The tracks that are at home in a cloud's sector, and how many they are."""
        event, sector = int(batch.event_id[0]), int(batch.sector[0])
        self.n_before = self.n_before if event == self.event else 0
        self.event = event
        label = number_labels(keep_home(label, columns, self.sectors, sector))
        n = int(label.max(initial=-1)) + 1
        label = np.where(label >= 0, label + self.n_before, label)
        self.n_before += n
        return label, n


def find_sectors(dataset: Dataset) -> Sectors:
    """The sectors that a dataset was built with; one where its manifest names none."""
    found: object = dataset.manifest.configuration
    for key in ("source", "clouds", "sectors"):
        found = found.get(key) if isinstance(found, dict) else None
    try:
        return Sectors(**found) if isinstance(found, dict) else Sectors()
    except TypeError:
        return Sectors()


def _layout(point_id: str, *, is_embedding: bool) -> pa.Schema:
    answer = (
        [("embedding", pa.list_(pa.float32())), ("track_id", pa.int64())]
        if is_embedding
        else [("score", pa.float32()), ("weight", pa.float32())]
    )
    return pa.schema([("event_id", pa.int64()), ("sector", pa.int32()), (point_id, pa.int32()), *answer])


def _weigh(trained: TrainedModel, out: Tensor, batch: Batch, pt: str | None) -> NDArray[np.float64]:
    """(N,) calibrated probabilities."""
    values = batch.columns.get(pt or "")
    logits = out.reshape(-1).cpu().double().numpy()
    return trained.calibration(logits, None if values is None else values.cpu().numpy())


def _rows(
    out: Tensor,
    batch: Batch,
    label: NDArray[np.int64] | None,
    layout: pa.Schema,
    weight: NDArray[np.float64] | None,
) -> pa.Table:
    """The rows of one cloud."""
    n = batch.n_points
    columns: list[object] = [
        np.full(n, int(batch.event_id[0])),
        np.full(n, int(batch.sector[0])),
        batch.columns[layout.names[2]].cpu().numpy(),
    ]
    if "embedding" in layout.names:
        embeddings = out.float().cpu().numpy()
        width = embeddings.shape[1]
        offsets = pa.array(np.arange(0, n * width + 1, width, dtype=np.int32))
        columns.append(pa.ListArray.from_arrays(offsets, pa.array(embeddings.ravel())))
        columns.append(label)
    else:
        columns += [out.reshape(-1).float().sigmoid().cpu().numpy(), weight]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, layout, strict=True)]
    return pa.Table.from_arrays(arrays, schema=layout)
