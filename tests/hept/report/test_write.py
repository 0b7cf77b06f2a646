import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from hepdata.errors import InputError
from hepdata.loader.dataset import open_dataset
from hept.report import write_report
from hept.report.definitions import explain
from hept.report.html_page import Page
from hept.settings.load import load_config
from hept.training.trainer import fit

SMALL = ["model.n_layers=1", "model.hidden_dim=8", "model.n_heads=2", "epochs=3", "validate_every=2"]
HEADINGS = {
    "tracking": ["Run", "Metrics", "Training", "Tracks", "Precision and recall", "Events", "Configuration"],
    "pileup": [
        "Run",
        "Metrics",
        "Training",
        "Precision and recall",
        "Pileup mitigation",
        "Events",
        "Configuration",
    ],
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module", params=["tracking", "pileup"])
def report(request, tmp_path_factory):
    """A report, and the headings it should have."""
    location = request.getfixturevalue(f"{request.param}_dataset")
    run = tmp_path_factory.mktemp("runs") / request.param
    fit(load_config(f"{request.param}-demo", SMALL), location, run)
    path = write_report(run, open_dataset(location))
    return path, HEADINGS[request.param]


class Links(HTMLParser):
    """Every resource that a page would load."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href")]


def test_the_page_is_whole_and_loads_nothing(report):
    path, headings = report
    text = path.read_text(encoding="utf-8")
    assert re.findall("<h2>(.*?)</h2>", text) == headings
    links = Links()
    links.feed(text)
    pictures = [link for link in links.found if link.startswith("data:image/png;base64,")]
    assert len(pictures) >= 4
    files = set(links.found) - set(pictures)
    assert {"view.html", "config.yaml", "metrics.csv", "best.safetensors"} <= files
    assert re.search(r"<td>model.hidden_dim</td><td>\d+</td><td[^>]*>8</td>", text)
    assert all((path.parent / name).is_file() for name in files)
    assert "<script" not in text
    assert "random_negatives" in text
    # Epochs trained, of which the first was not validated.
    assert re.search(r"epochs</t[hd]>\s*<td[^>]*>3<", text)
    assert re.search(r"clouds</t[hd]>\s*<td[^>]*>\d+ train, \d+ valid, \d+ test<", text)


# Counts pictures that the browser could decode, and what sticks out of the window.
PROBE = """<script>window.onload = () => {
  const shown = [...document.images].filter(i => i.complete && i.naturalWidth > 100 && i.naturalHeight > 100);
  document.body.setAttribute('data-probe', `${shown.length} of ${document.images.length} pictures, ` +
    `${document.documentElement.scrollWidth - window.innerWidth} pixels too wide, ` +
    `${performance.getEntriesByType('resource').filter(e => !e.name.startsWith('data:')).length} loaded`);
};</script>"""


def test_a_real_browser_shows_it(report, tmp_path):
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    path, headings = report
    probed = tmp_path / "probed.html"
    probed.write_text(
        path.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>"), encoding="utf-8"
    )
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1200,900",
    ]
    done = subprocess.run(
        [browser, *options, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", probed.as_uri()],
        capture_output=True,
        text=True,
        timeout=1200,
        check=True,
    )
    probe = re.search('data-probe="(.*?)"', done.stdout)
    assert probe is not None, done.stderr[-500:]
    shown, total, too_wide, loaded = map(int, re.findall(r"-?\d+", probe.group(1)))
    assert shown == total >= 4
    assert too_wide <= 0
    assert loaded == 0
    assert re.findall("<h2>(.*?)</h2>", done.stdout) == headings


def test_text_is_escaped():
    page = Page("a < b & c")
    page.add_table(("<x>",), [("<script>alert(1)</script>",), (0.123456,), (12345,)])
    page.add_code("a <b>")
    text = page.render()
    assert "<script>" not in text
    assert "0.1235" in text
    assert "12,345" in text
    assert "a &lt; b &amp; c" in text


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("ap@0.9", "k nearest"),
        ("auc_per_cloud", "Mean over clouds"),
        ("met_resolution_puppi", "missing pT"),
        ("fake_rate_target", "majority particle is a target"),
        ("duplicate_rate", "another track"),
    ],
)
def test_every_metric_is_defined(metric, words):
    assert words in explain(metric)


def test_a_folder_that_is_no_run_is_one_line(tracking_dataset, tmp_path):
    with pytest.raises(InputError, match="found no weights"):
        write_report(tmp_path, open_dataset(tracking_dataset))
