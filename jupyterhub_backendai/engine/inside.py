"""What a batch session's container has beside that of an interactive one: runner, job, places."""

from __future__ import annotations

from importlib.resources import files

from .batch import BatchJob, job_file
from .settings import BATCH_DIR, JOB_FILE, OUTPUT_DIR, RUNNER_DIR, STATE_DIR, SiteSettings
from .support import tree
from .tar import Entry


def batch_entries(job: BatchJob, site: SiteSettings) -> list[Entry]:
    """What is added to `support_files`. Reads files: for a thread.

    The job and the word to go are not the user's to change; what became of it is, because the
    runner is the user's as well.
    """
    runner = RUNNER_DIR.lstrip("/")
    return [
        (f"{runner}/", 0, 0, 0o755, None),
        *tree(files("jupyterhub_backendai.singleuser") / "runner", runner),
        (BATCH_DIR.lstrip("/") + "/", 0, 0, 0o755, None),
        (JOB_FILE.lstrip("/"), 0, 0, 0o644, job_file(job, site.log_max)),
        (STATE_DIR.lstrip("/") + "/", site.uid, site.gid, 0o755, None),
        (OUTPUT_DIR.lstrip("/") + "/", site.uid, site.gid, 0o755, None),
    ]
