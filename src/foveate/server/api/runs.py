"""`/sessions/{session}/run`: a model works on an epic, as a job, until it is done, asks, or reaches a limit."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated, Any

from msgspec import Meta, Struct

from foveate.agents.budget import fitting_budget, most_output
from foveate.agents.options import ChatOptions
from foveate.agents.run import DEFAULT_MAX_ITERATIONS, Caps, IterationEnd, RunEnd, run
from foveate.errors import InputError
from foveate.server.api.endpoint import Call, Endpoints
from foveate.server.api.jobs import Advance, JobResource
from foveate.server.problems import ProblemError
from foveate.session import Session

routes = Endpoints("runs")
RUN = "run"


class RunBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to start or to resume. The model gets the history tools and those of the task list, no others."""

    epic: str | None = None
    """What to do; fixed for the session. Omit it to resume."""
    tasks: str | None = None
    """Tasks in Markdown, `- [ ] Write the tests`; new and ticked ones are merged."""
    answer: Annotated[str, Meta(min_length=1)] | None = None
    """Answer to the question, or the solution of the blocker, that the run stopped at."""
    model: str | None = None
    """A model that is configured for chats. Default: the first."""
    max_iterations: Annotated[int, Meta(ge=1, le=100_000)] = DEFAULT_MAX_ITERATIONS
    """Limit of the whole run, including earlier starts."""
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Token limit of the whole run, up to the limit of the server's settings for agents."""
    max_usd: Annotated[float, Meta(ge=0)] | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None


@routes.add("POST", "/sessions/{session}/run", right="write", status=202)
async def run_session(call: Call, session: Session, body: RunBody) -> JobResource:
    """Start or resume a one-shot run of a session, as a job whose steps are its iterations.

    Its result has the reason (`done`, `question`, `blocked` or `cap`), the text, and the tasks in Markdown. The run is
    stored with the session: after a restart of the server, the same call resumes it. 409 while the session has a run
    in progress.
    """
    if running := call.parts.jobs.in_progress(RUN, session.engine.stored_id):
        own = call.principal.tenant in ("", running.tenant)
        advice = f": {running.id}; cancel it, or wait for its end" if own else "; wait for its end"
        raise ProblemError(409, f"a run of {session.id!r} is in progress{advice}")
    models = _models(call, body.model)
    settings = call.parts.fov.settings
    window = call.view.window_tokens(models[0])
    output_tokens = body.max_output_tokens or most_output(window)
    session.engine.limit_budget(
        fitting_budget(
            None,
            session.info,
            default_tokens=settings.session.budget_tokens,
            output_tokens=output_tokens,
            window_tokens=window,
            option="budget_tokens",
        )
    )
    caps = Caps(
        max_iterations=body.max_iterations,
        max_tokens=min(body.max_tokens or settings.agents.max_tokens, settings.agents.max_tokens),
        max_usd=min(settings.agents.max_usd if body.max_usd is None else body.max_usd, settings.agents.max_usd),
    )
    options = ChatOptions.of(call.view, max_output_tokens=output_tokens)

    async def work(advance: Advance) -> dict[str, Any]:
        documents = {"epic": body.epic, "tasks": body.tasks, "answer": body.answer}
        events = run(session, call.view.caller, models, options, caps=caps, **documents)
        async with aclosing(events):
            async for event in events:
                if isinstance(event, IterationEnd):
                    advance(1)
                if isinstance(event, RunEnd):
                    return _result(event)
        raise AssertionError("unreachable: a run ends, or fails")

    pool = f"runs of {call.principal.tenant}"  # a run may take hours
    started = call.parts.jobs.start(call.principal, RUN, session.id, total=body.max_iterations, work=work, pool=pool)
    return started.shown(call.principal)


def _models(call: Call, requested: str | None) -> tuple[str, ...]:
    """Return the model and its fallbacks; a model that is not configured is rejected."""
    models = call.view.models_for("chat")
    if not models:
        raise InputError("no model is configured for chats; set models.chat")
    if requested is not None and requested not in models:
        raise InputError(f"the model {requested!r} is not configured for chats; available: {', '.join(models)}")
    return tuple(dict.fromkeys((requested or models[0], *models)))


def _result(ended: RunEnd) -> dict[str, Any]:
    return {
        "reason": ended.reason,
        "text": ended.text,
        "iterations": ended.iterations,
        "tasks": ended.tasks.markdown(),
        "tokens": ended.tokens,
        "usd": ended.usd,
    }
