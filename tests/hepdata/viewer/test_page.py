"""The page of events: its bytes are the columns, and a real browser shows, selects and filters them."""

import base64
import json
import re
import shutil
import zlib

import numpy as np
import pytest

import hepdata
from hepdata.schema import PILEUP, TRACKING
from hepdata.viewer.page import Event, render_page, write_page

N = 400


def make_event(event_id=7):
    """Twenty particles of fifteen hits and a hundred of noise; all particles but the first are found."""
    random = np.random.default_rng(event_id)
    particle = np.concatenate([np.repeat(np.arange(1, 21), 15) + 2**60, np.zeros(100, int)]).astype(np.int64)
    columns = {
        "hit_id": np.arange(N, dtype=np.int32),
        "layer": np.tile(np.arange(10, dtype=np.int32), N // 10),
        "r": random.uniform(30, 1000, N).astype(np.float32),
        "phi": random.uniform(-3, 3, N).astype(np.float32),
        "z": random.uniform(-900, 900, N).astype(np.float32),
        "eta": random.uniform(-3, 3, N).astype(np.float32),
        "particle_id": particle,
        "pt": np.where(particle > 0, 0.1 * (particle - 2**60), 0).astype(np.float32),
        "is_reconstructable": particle > 0,
    }
    track = np.where(particle > 2**60 + 1, particle - 2**60 - 2, -1)
    return Event(event_id, 0, columns).with_tracks(track, particle)


def read_content(page):
    return json.loads(re.search(r'id="content">(.*?)</script>', page, re.S)[1])


def test_the_page_has_every_byte_of_every_column():
    event = make_event()
    entry = read_content(render_page("two", [event], TRACKING))["events"][0]
    data = zlib.decompress(base64.b64decode(entry["data"]))
    assert {name for name, _, _ in entry["layout"]} == set(event.columns)
    for name, kind, begin in entry["layout"]:
        assert begin % 8 == 0
        found = np.frombuffer(data, np.dtype(kind).newbyteorder("<"), entry["n"], begin)
        np.testing.assert_array_equal(found, event.columns[name])


def test_tracks_are_named_after_the_particle_of_most_hits():
    columns = (
        make_event().with_tracks(np.array([0] * 15 + [1] * 385), make_event().columns["particle_id"]).columns
    )
    assert set(columns["track_particle"][:15]) == {2**60 + 1}
    assert set(columns["track_particle"][15:]) == {0}


def test_text_of_a_file_is_not_markup():
    page = render_page("</script><script>alert(1)", [make_event()], TRACKING)
    assert "<script>alert" not in page


def test_the_page_asks_for_nothing_from_outside():
    page = render_page("offline", [make_event()], TRACKING)
    assert not re.search(r"""(src|href)\s*=\s*["']|@import|url\(""", page)


def test_a_command_line_says_what_is_wrong(make_dataset, tmp_path):
    make_dataset(tmp_path / "d")
    with pytest.raises(hepdata.InputError, match="`events`: found 0"):
        hepdata.view(tmp_path / "d", events=0)
    with pytest.raises(hepdata.InputError, match="no such split"):
        hepdata.view(tmp_path / "d", tmp_path / "a.html", split="trian")
    assert not list(tmp_path.glob("*.html"))


def test_a_dataset_becomes_a_page_with_the_first_events(make_dataset, tmp_path):
    make_dataset(tmp_path / "d")
    page = hepdata.view(tmp_path / "d", tmp_path / "new" / "a.html", events=2)
    ds = hepdata.open_dataset(tmp_path / "d")
    shown = [entry["event"] for entry in read_content(page.read_text())["events"]]
    assert shown == [cloud.event_id for cloud in ds["train"][:2]]


# ---- In a browser ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium; skipped where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs pip install selenium")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("needs chromium and chromedriver: apt install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-unsafe-swiftshader",
        "--window-size=1200,800",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    chrome = webdriver.Chrome(options=options, service=service)
    chrome.set_script_timeout(60)
    yield chrome
    chrome.quit()


@pytest.fixture
def show(browser, tmp_path):
    """Write a page, open it, wait until it is drawn; afterwards nothing may have been complained of."""
    from selenium.webdriver.support.ui import WebDriverWait

    def show(events, schema=TRACKING):
        write_page(tmp_path / "page.html", "page", events, schema)
        browser.get(f"file://{tmp_path}/page.html")
        WebDriverWait(browser, 60).until(
            lambda b: b.execute_script("return document.documentElement.dataset.ready") == "yes"
        )
        return browser

    yield show
    assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []


def click_at(browser, point, pane=0):
    """A real click of the mouse on the pixel of a point."""
    from selenium.webdriver.common.action_chains import ActionChains

    x, y = browser.execute_script("return heptView.locate(arguments[0], arguments[1])", point, pane)
    stage = browser.find_element("id", "stage").rect
    actions = ActionChains(browser)
    actions.w3c_actions.pointer_action.move_to_location(round(stage["x"] + x), round(stage["y"] + y))
    actions.w3c_actions.pointer_action.click()
    actions.perform()


def selected(browser):
    return set(browser.execute_script("return heptView.state.selected ? heptView.state.selected.order : []"))


def test_a_click_selects_the_track_under_it(show):
    event = make_event()
    browser = show([event])
    assert browser.execute_script("return heptView.state.panes") == 2
    point = browser.execute_script("return heptView.pick(...heptView.locate(40, 1), 3).point")
    click_at(browser, 40, pane=1)
    track = event.columns["track"]
    assert selected(browser) == set(np.flatnonzero(track == track[point]).tolist())
    described = browser.find_element("id", "chosen").text
    assert f"found track {track[point]}" in described
    assert f"{event.columns['particle_id'][point]}\n15 of its 15" in described.replace(" 15 of", "\n15 of")


def test_a_click_beside_everything_clears_the_selection(show):
    browser = show([make_event()])
    click_at(browser, 40)
    assert selected(browser)
    browser.execute_script("heptView.state.plane.x = 100; heptView.state.plane.y = 100")
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).move_by_offset(5, 5).click().perform()
    assert not selected(browser)


def test_hovering_shows_every_column(show):
    from selenium.webdriver.common.action_chains import ActionChains

    event = make_event()
    browser = show([event])
    x, y = browser.execute_script("return heptView.locate(3)")
    top = browser.find_element("id", "stage").rect["y"]
    actions = ActionChains(browser)
    actions.w3c_actions.pointer_action.move_to_location(round(x), round(top + y))
    actions.perform()
    tip = browser.find_element("id", "tip").text
    assert all(name in tip for name in event.columns)
    assert str(event.columns["particle_id"][browser.execute_script("return heptView.state.hovered")]) in tip


def test_filters_hide_what_they_exclude(show):
    event = make_event()
    browser = show([event])
    browser.find_element("id", "pt-min").send_keys("1.05")
    browser.find_element("id", "level-max").send_keys("4")
    shown = np.array(browser.execute_script("return Array.from(heptView.state.shown)"), bool)
    columns = event.columns
    np.testing.assert_array_equal(shown, (columns["pt"] >= 1.05) & (columns["layer"] <= 4))
    assert f"{shown.sum()} shown" in browser.find_element("id", "status").text


COUNT_COLOURED = """
const gl = document.getElementById("points"), copy = document.createElement("canvas");
copy.width = gl.width; copy.height = gl.height;
const pen = copy.getContext("2d"); pen.drawImage(gl, 0, 0);
const data = pen.getImageData(0, 0, copy.width, copy.height).data;
let count = 0;
for (let i = 0; i < data.length; i += 4) {
  const rgb = data.slice(i, i + 3);
  if (Math.max(...rgb) - Math.min(...rgb) > 40) count++;
}
return count;
"""


@pytest.mark.parametrize("mode", ["plane", "space"])
def test_points_are_drawn_and_filtered_points_are_not(show, mode):
    browser = show([make_event()])
    browser.execute_script("heptView.setMode(arguments[0]); heptView.frameTime(1)", mode)
    assert browser.execute_script(COUNT_COLOURED) > 500
    browser.find_element("id", "pt-min").send_keys("99")
    browser.execute_script("heptView.frameTime(1)")
    assert browser.execute_script(COUNT_COLOURED) == 0


def test_the_next_event_is_one_key_away(show):
    browser = show([make_event(7), make_event(8)])
    browser.find_element("id", "next").click()
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 30).until(
        lambda b: b.execute_script("return heptView.state.event.event === 8 && heptView.state.index === 1")
    )


def test_scores_of_particles_and_points_without_one(show):
    random = np.random.default_rng(1)
    columns = {
        "index_in_source": np.arange(50, dtype=np.int32),
        "eta": random.uniform(-3, 3, 50).astype(np.float32),
        "phi": random.uniform(-3, 3, 50).astype(np.float32),
        "pt": random.exponential(2, 50).astype(np.float32),
        "is_scored": random.random(50) < 0.5,
        "is_leading": random.random(50) < 0.5,
    }
    score = np.where(columns["is_scored"], 0.25, np.nan)
    browser = show([Event(1, 0, columns).with_scores(score)], PILEUP)
    assert browser.execute_script("return heptView.state.colors") == ["is_leading", "score"]
    browser.execute_script("heptView.setMode('space'); heptView.frameTime(1)")
    browser.find_element("id", "only").click()
    assert (
        browser.execute_script("return heptView.state.shown.reduce((a, b) => a + b)")
        == columns["is_scored"].sum()
    )


@pytest.mark.parametrize("n", [0, 1])
def test_an_empty_event_and_one_point(show, n):
    event = make_event()
    show([Event(1, 0, {name: values[:n] for name, values in event.columns.items()})]).execute_script(
        "heptView.setMode('space'); heptView.frameTime(1)"
    )


def test_sixty_thousand_points(show):
    repeated = {name: np.tile(values, 150) for name, values in make_event().columns.items()}
    browser = show([Event(1, 0, repeated)])
    assert browser.execute_script("return heptView.state.event.n") == 60_000
    assert browser.execute_script("heptView.setMode('space'); return heptView.frameTime(2)") > 0
