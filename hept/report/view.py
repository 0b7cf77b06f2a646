"""A model's answers on an interactive page: outputs of clouds enter, one HTML file leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from hepdata.schema import Schema
from hepdata.viewer.page import Event, write_page
from hept.evaluation.inference import Answer
from hept.model.trained import TrainedModel
from hept.objectives.classification import select_scored
from hept.tracks.finder import Clustering, find_tracks

FILE = "view.html"


def write_view(
    out: Path,
    title: str,
    answers: Iterable[Answer],
    trained: TrainedModel,
    schema: Schema,
    clustering: Clustering,
) -> Path:
    """Write the page of the clouds of some answers, see `hept.evaluation.inference.run_model`."""
    return write_page(out, title, _list_events(answers, trained, schema, clustering), schema)


def _list_events(
    answers: Iterable[Answer], trained: TrainedModel, schema: Schema, clustering: Clustering
) -> Iterator[Event]:
    target = schema.target
    for out, batch in answers:
        columns = {name: values.cpu().numpy() for name, values in batch.columns.items()}
        event = Event(int(batch.event_id[0]), int(batch.sector[0]), columns)
        if trained.is_embedding:
            track = find_tracks(out.cpu().double().numpy(), columns, clustering)
            yield event.with_tracks(track, columns.get(target.label) if target else None)
        else:
            score = out.reshape(-1).cpu().double().sigmoid().numpy()
            is_scored = select_scored(batch, target).cpu().numpy() if target else True
            yield event.with_scores(np.where(is_scored, score, np.nan))
