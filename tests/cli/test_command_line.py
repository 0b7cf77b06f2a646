import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from hept_cli.printing import format_bytes, format_value

HEAD = """
    import sys, types, click
    from hept_cli.command_line import LazyGroup, json_option, run, write_json
    from hepdata.errors import InputError, JobError

    module = types.ModuleType("made_up"); sys.modules["made_up"] = module
    def expose(function):
        module.command = click.command()(function)
    group = LazyGroup(name="tool", help="A tool.", commands_at={"work": ("made_up", "do work")})
"""


def run_tool(body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = textwrap.dedent(HEAD) + textwrap.dedent(body) + "\nrun(group)\n"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("kind", "code"), [("InputError", 2), ("JobError", 1)])
def test_user_errors_are_one_line_and_a_code(kind, code):
    body = f"""
    def work():
        raise {kind}("hits.csv", found="[a]\\nb", expected="c", remedy="d")
    expose(work)
    """
    done = run_tool(body, "work")
    assert done.returncode == code
    assert done.stderr == "error: hits.csv: found [a]\\nb; expected c; d\n"
    assert done.stdout == ""
    assert "Traceback" in run_tool(body, "work", "--debug").stderr


def test_a_full_disk_is_one_line_too():
    done = run_tool(
        """
    def work():
        raise OSError(28, "No space left on device", "shard.parquet")
    expose(work)
    """,
        "work",
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: shard.parquet: found No space left on device;")
    assert done.stderr.count("\n") == 1


def test_wrong_usage_exits_with_two():
    done = run_tool("expose(lambda: None)", "werk")
    assert done.returncode == 2
    assert "No such command 'werk'" in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_bug_keeps_its_traceback():
    done = run_tool("def work(): raise RuntimeError('bug')\nexpose(work)", "work")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_interrupt_is_said_in_one_line():
    done = run_tool("def work(): raise KeyboardInterrupt\nexpose(work)", "work")
    assert done.returncode == 130
    assert "stopped by the user" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_lists_commands_without_importing_them():
    script = textwrap.dedent(HEAD).replace('("made_up", "do work")', '("no.such.module", "do work")')
    done = subprocess.run(
        [sys.executable, "-c", script + "\nrun(group)\n", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "work" in done.stdout
    assert "do work" in done.stdout
    assert "--debug" in done.stdout


def test_json_file_holds_numpy_and_paths(tmp_path):
    body = """
    import numpy, pathlib
    def work(json_path):
        write_json(json_path, {"n": numpy.int64(3), "where": pathlib.Path("a/b")})
    expose(json_option(work))
    """
    target = tmp_path / "out.json"
    assert run_tool(body, "work", "--json", str(target)).returncode == 0
    assert json.loads(target.read_text()) == {"n": 3, "where": str(Path("a/b"))}
    done = run_tool(body, "work", "--json", str(tmp_path / "none" / "out.json"))
    assert done.returncode == 2
    assert "choose another path" in done.stderr


@pytest.mark.parametrize(
    ("value", "text"), [(1234567, "1,234,567"), (0.123456, "0.1235"), (True, "yes"), (None, "–"), ("a", "a")]
)
def test_values_are_printed_for_people(value, text):
    assert format_value(value) == text


@pytest.mark.parametrize(("size", "text"), [(999, "999 B"), (1_500_000, "1.5 MB"), (2.5e12, "2.5 TB")])
def test_sizes_are_printed_for_people(size, text):
    assert format_bytes(size) == text


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_nowhere_to_write_to(tmp_path, closed):
    """A closed standard output leaves its number to the next file that is opened."""
    body = f"""
    def work():
        with open("{tmp_path}/file", "w") as file:
            click.echo("to the screen")
            import os; os.write(1, b"from C"); os.write(2, b"from C")
            file.write("content")
    expose(work)
    """
    script = textwrap.dedent(HEAD) + textwrap.dedent(body) + "\nrun(group)\n"
    (tmp_path / "tool.py").write_text(script)
    done = subprocess.run(["sh", "-c", f"{sys.executable} {tmp_path}/tool.py work {closed}"], check=False)
    assert done.returncode == 0
    assert (tmp_path / "file").read_text() == "content"


def test_a_url_that_ends_with_the_command_is_refused():
    done = run_tool("expose(lambda: None)", "work", "memory://out")
    assert done.returncode == 2
    assert done.stderr.startswith("error: memory://out: found a URL in the memory of the process")


def test_no_memory_is_one_line():
    body = """
    def work():
        import numpy
        numpy.zeros(10**16)
    expose(work)
    """
    done = run_tool(body, "work")
    assert done.returncode == 1
    assert done.stderr.startswith("error: memory: found not enough memory (Unable to allocate 71.1 PiB")
    assert done.stderr.count("\n") == 1
