"""`GET health` and `GET api/openapi.json`: what the service says about itself."""

from __future__ import annotations

import json

from ..base import Handler
from ..openapi import schema
from ..schemas import Health


class HealthHandler(Handler):
    """Liveness, for anybody: what is wrong is told elsewhere, to admins."""

    async def get(self) -> None:
        problem = self.service.parts.problem
        if problem is None:
            self.reply(Health(status="ok"))
            return
        self.set_status(503)
        self.set_header("Retry-After", "5")
        status = "starting" if problem.code == "starting" else "not_working"
        self.finish(Health(status=status).model_dump_json())


class SchemaHandler(Handler):
    """The OpenAPI schema."""

    async def get(self) -> None:
        self.finish(json.dumps(schema()))
