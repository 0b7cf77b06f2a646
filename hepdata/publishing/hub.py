"""Upload to Hugging Face: one commit with all files, so that a partial upload is never visible.

Large files are sent before the commit, and the hub keeps those that have arrived: an upload that was killed
sends only the rest when the same command runs again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from hepdata.errors import InputError, JobError, missing_extra
from hepdata.progress import Progress
from hepdata.publishing.about import HUB

# A `Path` turns `hf://` into `hf:/`.
# Names begin and end with a letter or digit, and have no two dots or dashes in a row.
_NAME = r"\w+(?:[.-]\w+)*"
_ADDRESS = re.compile(rf"hf:/{{1,2}}({_NAME}/{_NAME})(?<!\.git)/?", re.ASCII)
# Written by the hub itself.
_HUBS_OWN = ".gitattributes"


@dataclass(frozen=True)
class Repository:
    """A dataset on Hugging Face.

    Attributes:
        name: `user/name`.
    """

    name: str

    @property
    def url(self) -> str:
        """Its web page."""
        return HUB + self.name


def find_repository(address: str) -> Repository:
    """The repository of `hf://user/name`.

    Raises:
        InputError: Another form of address, or no `huggingface_hub`.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InputError(
            "`push`",
            found=repr(address),
            expected="hf://user/name",
            remedy="check the spelling of the address",
        )
    if find_spec("huggingface_hub") is None:
        raise missing_extra("huggingface_hub", "hub")
    return Repository(found[1])


def push_folder(
    folder: Path,
    files: Sequence[Path],
    repository: Repository,
    *,
    private: bool,
    title: str,
    progress: Progress,
) -> str:
    """Make the files of a folder the content of a repository, in one commit.

    Files of an earlier version that are no longer in the folder are removed by the same commit.

    Args:
        folder: A published folder.
        files: Its files.
        repository: Where to; made if it does not exist.
        private: Whether a new repository is private.
        title: Of the commit.
        progress: Told of the start and the end.

    Returns:
        Address of the commit.

    Raises:
        JobError: The hub refuses or does not answer; the repository is as before.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    api = HfApi(library_name="hept")
    progress.start(f"uploading to hf://{repository.name}", 1, "commit")
    try:
        api.create_repo(repository.name, repo_type="dataset", exist_ok=True, private=private)
        info = api.repo_info(repository.name, repo_type="dataset")
        names = [path.relative_to(folder).as_posix() for path in files]
        old = api.list_repo_files(repository.name, repo_type="dataset", revision=info.sha)
        commit = api.create_commit(
            repository.name,
            [
                *(CommitOperationDelete(name) for name in sorted({*old} - {*names, _HUBS_OWN})),
                *(CommitOperationAdd(name, path) for name, path in zip(names, files, strict=True)),
            ],
            commit_message=title,
            repo_type="dataset",
            # The hub refuses the commit if the repository has changed since.
            parent_commit=info.sha,
        )
        progress.advance()
    except Exception as error:  # exceptions of the HTTP client, which changes with the version of the package
        raise JobError(
            f"hf://{repository.name}",
            found=" ".join(str(error).split())[:300] or type(error).__name__,
            expected="a hub that takes the files",
            remedy="check the network and `hf auth login`, then run the same command again: files that have "
            "arrived are not sent again",
        ) from error
    finally:
        progress.finish()
    return str(commit.commit_url)
