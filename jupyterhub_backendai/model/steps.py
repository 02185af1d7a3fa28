"""Names of the sub-steps that a row of the scheduling history is made of."""

from __future__ import annotations

from enum import Enum


class Step(str, Enum):
    """What was done or checked within a phase."""

    LIMITS = "check_limits"
    DEPENDENCIES = "check_dependencies"
    START_TIME = "check_start_time"
    AGENTS = "check_agents"
    OWNER_QUOTA = "check_owner_quota"
    PROJECT_QUOTA = "check_project_quota"
    TURN = "check_turn"
    PENDING_TIMEOUT = "check_pending_timeout"
    SELECT_AGENT = "select_agent"
    ALLOCATE = "allocate"

    CLEAR_EARLIER = "clear_earlier_try"
    CHECK_IMAGE = "check_image"
    PULL_IMAGE = "pull_image"
    MAKE_FOLDERS = "make_folders"

    PREPARE_GPUS = "prepare_gpus"
    CHOOSE_CORES = "choose_cores"
    CREATE_CONTAINER = "create_container"
    COPY_FILES = "copy_files"
    START_CONTAINER = "start_container"
    POST_START = "post_start_command"
    SERVER_ANSWERS = "wait_for_server"

    STOP_CONTAINER = "stop_container"
    SAVE_OUTCOME = "save_outcome"
    SAVE_LOG = "save_log"
    REMOVE_CONTAINER = "remove_container"


# In the order in which a schedule pass makes them; the first that fails is the last that is made.
CHECKS = (
    Step.LIMITS, Step.DEPENDENCIES, Step.START_TIME, Step.AGENTS, Step.OWNER_QUOTA,
    Step.PROJECT_QUOTA, Step.TURN, Step.SELECT_AGENT,
)  # fmt: skip
