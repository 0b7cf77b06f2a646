import base64
import json
import re
import zlib

import numpy as np
import pytest

import hept
from hepdata.loader.dataset import open_dataset
from hept.settings.load import load_config
from hept.tracks.finder import Clustering, find_tracks
from hept.training.trainer import fit

SMALL = ["model.n_layers=1", "model.hidden_dim=8", "model.n_heads=2", "epochs=1"]


def read_column(page, index, name):
    content = json.loads(re.search(r'id="content">(.*?)</script>', page.read_text(), re.S)[1])
    entry = content["events"][index]
    kind, begin = next((kind, begin) for key, kind, begin in entry["layout"] if key == name)
    data = zlib.decompress(base64.b64decode(entry["data"]))
    return np.frombuffer(data, kind, entry["n"], begin)


@pytest.mark.parametrize("task", ["tracking", "pileup"])
def test_the_page_has_the_models_answers(request, tmp_path, task):
    location = request.getfixturevalue(f"{task}_dataset")
    fit(load_config(f"{task}-demo", SMALL), location, tmp_path / "run")
    page = hept.view(tmp_path / "run", split="valid", events=2)
    assert page == tmp_path / "run" / "view-valid.html"
    split, model = open_dataset(location)["valid"], hept.load_model(tmp_path / "run")
    for index in range(2):
        cloud = split[index]
        out = model(cloud).double()
        if task == "tracking":
            label = find_tracks(out.numpy(), cloud.columns, Clustering())
            np.testing.assert_array_equal(read_column(page, index, "track"), label)
        else:
            score = np.where(cloud.is_scored, out.flatten().sigmoid().numpy(), np.nan)
            np.testing.assert_allclose(read_column(page, index, "score"), score, rtol=1e-6)
        np.testing.assert_array_equal(read_column(page, index, "eta"), cloud.eta)
