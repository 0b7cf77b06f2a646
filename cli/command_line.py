"""Common parts of all commands: one-line errors, `--debug`, `--version`, `--json`, lazy imports."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from hepdata import __version__
from hepdata.console import SafeConsole
from hepdata.errors import HeptError, InputError, JobError, nearest_name

from .flags import name_flags

errors = SafeConsole(stderr=True, soft_wrap=True)
_Function = TypeVar("_Function", bound=Callable[..., object])


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, so that `--help` is fast.

    `--debug` is listed here and accepted anywhere on the line: `run` removes it before click parses the line.

    Args:
        commands_at: Command name to (module, one-line help); the module holds a function named `command`.
    """

    def __init__(self, *, commands_at: dict[str, tuple[str, str]], name: str, help: str) -> None:
        super().__init__(
            name=name,
            help=help,
            no_args_is_help=True,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        )
        self.commands_at = commands_at
        self._called: click.Command | None = None
        self.params += [
            click.Option(["--debug"], is_flag=True, is_eager=True, help="Show the traceback of an error."),
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_print_version,
                help="Show the version.",
            ),
        ]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names in the order of a typical workflow."""
        return list(self.commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command's module."""
        if cmd_name not in self.commands_at:
            return None
        module = importlib.import_module(self.commands_at[cmd_name][0], __package__)
        command: click.Command = module.command
        self._called = command
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; in errors, replace names of parameters by the command's options."""
        try:
            return super().invoke(ctx)
        except HeptError as error:
            raise error.reworded(lambda text: name_flags(text, self._called)) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; the error for an unknown name suggests the nearest one."""
        name = args[0]
        if name in self.commands_at or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"No such command {name!r}; {nearest_name(name, list(self.commands_at))}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.commands_at.items()])


def run(group: click.Group) -> NoReturn:
    """Run a command line: exit 0, 1 (failed job) or 2 (wrong usage or input); a traceback only on request."""
    _open_closed_streams()
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        _refuse_memory(arguments)
        # Show the program's name, also if it was started as `python -m`.
        code = group.main(arguments, prog_name=group.name, standalone_mode=False)
        _flush()
    except HeptError as error:
        if debug:
            errors.print_exception()
        fail(error)
    except click.exceptions.Abort:
        _print_error("stopped by the user")
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _print_error(_one_line(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of a pipe (head, less) has ended, which is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        # Any file access can fail, for instance on a full disk or without permission.
        if debug:
            errors.print_exception()
        fail(
            JobError(
                error.filename or "file system",
                found=error.strerror or type(error).__name__,
                expected="a path that can be read and written",
                remedy="check the path, its permissions and the free space, then run the command again",
            )
        )
    except MemoryError as error:
        if debug:
            errors.print_exception()
        fail(
            JobError(
                "memory",
                found=f"not enough memory ({' '.join(str(error).split()) or 'an allocation failed'})",
                expected="a job that fits into this machine",
                remedy="use fewer --workers, smaller clouds, or a machine with more memory",
            )
        )
    sys.exit(code if isinstance(code, int) else 0)


def _refuse_memory(arguments: list[str]) -> None:
    """Refuse `memory://` URLs: what is written there ends with the command."""
    for argument in arguments:
        if argument.startswith("memory:"):
            raise InputError(
                argument,
                found="a URL in the memory of the process, which ends with the command",
                expected="a folder or another URL",
                remedy="choose one, or call the function of the same name in Python",
            )


def _open_closed_streams() -> None:
    """Redirect standard output or error to the null device if the caller has closed it (`>&-`).

    Otherwise the next opened file gets the descriptor of the closed stream, and receives its output.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_WRONLY)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8"))


def fail(error: HeptError) -> NoReturn:
    """Print one red line and exit with the error's code."""
    _print_error(" ".join(str(error).split()))
    sys.exit(error.exit_code)


def _one_line(error: click.ClickException) -> str:
    text = " ".join(error.format_message().split()).rstrip(".")
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        # Our own wording, since click's wording changes with its version.
        text = f"No such option {error.option_name!r}; did you mean {error.possibilities[0]!r}?"
    context = getattr(error, "ctx", None)
    if context is None:
        return text
    text += "" if text.endswith("?") else ";"
    return f"{context.command_path}: {text} see {context.command_path} --help"


def _print_error(text: str) -> None:
    errors.print("error:", text, style="bold red", markup=False, emoji=False, highlight=False)


def _print_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        click.echo(f"{ctx.find_root().info_name} {__version__}")
        ctx.exit()


def _flush() -> None:
    sys.stdout.flush()


def json_option(function: _Function) -> _Function:
    """Add `--json FILE` to a command that prints a table."""
    return click.option(
        "--json",
        "json_path",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Also write the printed results to FILE as JSON.",
        metavar="FILE",
    )(function)


def threads_option(function: _Function) -> _Function:
    """Add `--threads N` to a command that runs a model."""
    return click.option(
        "--threads",
        type=click.IntRange(1),
        metavar="N",
        help="Threads on a CPU.  [default: HEPT_THREADS, OMP_NUM_THREADS, or the number of idle cores]",
    )(function)


def device_option(function: _Function) -> _Function:
    """Add `--device NAME` to a command that runs a model."""
    return click.option(
        "--device",
        default="auto",
        metavar="NAME",
        callback=_check_device,
        help="Where to run: cpu, cuda, cuda:1, mps, or auto, which takes a GPU if there is one.  "
        "[default: auto]",
    )(function)


def _check_device(_: click.Context, __: click.Parameter, value: str) -> str:
    from hept.devices.choice import check_device

    return check_device(value)


def precision_option(function: _Function) -> _Function:
    """Add `--precision NAME` to a command that runs a model."""
    return click.option(
        "--precision",
        type=click.Choice(["32-true", "64-true", "bf16-mixed", "16-mixed"]),
        help="Floating-point precision; coordinates, hashes and distances stay float32 in the mixed ones.  "
        "[default: the setting `precision`]",
    )(function)


def model_options(function: _Function) -> _Function:
    """Add `--device`, `--precision`, `--threads` and `--json`."""
    return device_option(precision_option(threads_option(json_option(function))))


def write_json(path: Path | None, content: object) -> None:
    """Write `content` as JSON if `--json` was given."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise InputError(
            path,
            found="no such folder",
            expected="a file in an existing folder for --json",
            remedy="choose another path",
        )
    # Imported here, since only `--json` needs it.
    from hepdata.storage.atomic import disk_errors, write_atomically

    text = json.dumps(content, indent=2, default=_plain) + "\n"
    if path.exists() and not path.is_file():
        # Such as /dev/stdout, which cannot be replaced.
        with disk_errors(path):
            path.write_text(text, encoding="utf-8")
        return
    with write_atomically(path, sync_name=False) as file:
        file.write(text.encode())


def _plain(value: Any) -> object:
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")
