"""The composition root: the only place where things are built, started and stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from aiohttp import web

from gateway import __version__
from gateway.clock import Clock, SystemClock
from gateway.control.alerts import AlertSender, Receiver
from gateway.control.case_keepers import CaseKeepers
from gateway.control.keepers import Keeper, LedgerKeepers, keep
from gateway.control.lease_keepers import LeaseKeepers
from gateway.control.panel import Panel, Readiness
from gateway.control.policies import Policies
from gateway.control.risk_keeper import RiskKeeper
from gateway.control.router import ControlPlane
from gateway.control.work_keepers import WorkKeepers
from gateway.core.effect import Outcome
from gateway.core.errors import LedgerUnavailable, RecordLost, SettingsError
from gateway.core.policy import Destination
from gateway.core.principals import Principal
from gateway.outbound.send import Outbound
from gateway.outbound.startup import check_platform
from gateway.proxy.body import Spool
from gateway.proxy.handler import DataPlane
from gateway.proxy.house import House, State
from gateway.proxy.ledger_watch import LedgerWatch
from gateway.proxy.reconciler import Reconciler
from gateway.proxy.target import PREFIX
from gateway.proxy.unsettled import Shelf
from gateway.settings import Settings
from gateway.store.homes import Home, home_at
from gateway.store.ledger import Ledger
from gateway.store.records import Settlement
from gateway.store.upkeep import Kept
from gateway.web.auth import Authenticator
from gateway.web.case_metrics import CaseMetrics
from gateway.web.collector import calm_collector
from gateway.web.decisions import Decisions
from gateway.web.lease_metrics import LeaseMetrics
from gateway.web.log import Lines, configure
from gateway.web.metrics import Metrics
from gateway.web.reconcile_metrics import ReconcileMetrics
from gateway.web.tasks import Tasks
from gateway.web.work_metrics import WorkMetrics
from gateway.wire.policy_file import read_destination
from gateway.wire.policy_reload import Reloader, file_stamp
from gateway.wire.principals_file import load_principals

MAX_LINE_BYTES: Final = 16 * 1024
MAX_FIELDS: Final = 256
GIVE_UP_S: Final = 5.0


class Gateway:
    """One gateway process: data plane and control plane on one port, one ledger."""

    def __init__(
        self,
        settings: Settings,
        house: House,
        policies: Policies,
        clock: Clock,
        principals_seen: tuple[int, int, int] | None = None,
    ) -> None:
        self.settings = settings
        self.house = house
        self.policies = policies
        self.clock = clock
        self.port = 0
        self._principals_seen = principals_seen
        self._principals_error: str | None = None
        self._keepers = Tasks(house.log)
        self._closing = asyncio.Event()
        self._case_metrics = CaseMetrics(house.metrics.registry)
        self._lease_metrics = LeaseMetrics(house.metrics.registry, house.state.policies.functions)
        self._work_metrics = WorkMetrics(
            house.metrics.registry, lambda: house.state.policies.functions
        )
        self._reconciler = Reconciler(
            house,
            Shelf(lambda: house.state.policies, self._read_policy),
            ReconcileMetrics(house.metrics.registry),
        )
        self._data = DataPlane(house)
        self._control = ControlPlane(
            Panel(
                ledger=house.ledger,
                authenticator=house.authenticator,
                clock=clock,
                metrics=house.metrics,
                lease_metrics=self._lease_metrics,
                work_metrics=self._work_metrics,
                tasks=house.tasks,
                closing=self._closing,
                log=house.log,
                policies=lambda: house.state.policies,
                readiness=self.readiness,
                version=__version__,
            )
        )
        self._risks = RiskKeeper(
            house.ledger, house.metrics, house.log, unsafe=settings.ledger_unsafe
        )
        self._runner: web.ServerRunner | None = None

    # -- building

    @classmethod
    async def build(
        cls, settings: Settings, clock: Clock | None = None, *, force_policies: bool = False
    ) -> Gateway:
        """Build everything, open the ledger, load the policies. Nothing listens yet."""
        settings.check_serving()
        clock = clock or SystemClock()
        lines = Lines(sys.stdout.buffer)
        as_json = settings.log_format == "json"
        log = configure(settings.log_level, json=as_json, stream=lines, clock=clock)
        for warning in check_platform():
            log.warning("platform", text=warning)
        reloader = Reloader(settings.policies, os.environ, today=_today)
        for complaint in reloader.warnings:
            log.warning("policy", text=str(complaint))
        # Looked at before it is read: a change made meanwhile is seen at the next look.
        principals_seen = file_stamp(settings.principals) if settings.principals else None
        principals = _principals(settings)
        metrics = Metrics(reloader.current.destinations)
        state = State(reloader.current)
        ledger = await Ledger.open_at(
            _home(settings),
            clock,
            version=__version__,
            observer=LedgerWatch(metrics, state, log),
            witness=settings.witness_path(),
        )
        house = House(
            state=state,
            clock=clock,
            ledger=ledger,
            outbound=Outbound(clock),
            spool=Spool(settings.spool_path(), memory_bytes=settings.body_spool_bytes),
            authenticator=Authenticator(principals, dev=settings.dev),
            metrics=metrics,
            log=log,
            decisions=Decisions(log, clock, lines if as_json else None),
            tasks=Tasks(log),
            replay_body_max_bytes=settings.replay_body_max_bytes,
        )
        metrics.inflight.set_function(lambda: len(house.inflight))
        metrics.slot_waiting.set_function(house.slots_waiting)
        metrics.ledger_restored.set_function(lambda: float(ledger.older_because is not None))
        policies = Policies(reloader, ledger, metrics, log, house.state.replace_policies)
        try:
            # Now, for nobody can leave in the middle: an opening that is cancelled leaves its
            # thread behind, and the process would not end.
            await ledger.reader()
            await policies.adopt_first(force=force_policies)
        except BaseException:
            await ledger.close()
            raise
        return cls(settings, house, policies, clock, principals_seen)

    # -- running

    async def start(self) -> None:
        """Listen, and set the keepers going."""
        settings = self.settings
        await self._risks.look_first()
        server = web.Server(
            self._handle,
            handler_cancellation=True,
            auto_decompress=False,
            access_log=None,
            keepalive_timeout=settings.keepalive_timeout_s,
            lingering_time=5.0,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            max_headers=MAX_FIELDS,
        )
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        host, port = settings.listen_address()
        try:
            site = web.TCPSite(self._runner, host, port, ssl_context=_tls(settings), backlog=1024)
            await site.start()
        except OSError as error:
            raise SettingsError(f"cannot listen on {settings.listen}: {error}") from error
        self.port = self._runner.addresses[0][1]
        if settings.port_file is not None:
            _write_port(settings.port_file, self.port)
        for keeper in self._all_keepers():
            self._keepers.launch(keep(keeper, self.house.log), f"keeper-{keeper.name}")
        self.house.log.info(
            "listening",
            address=f"{host}:{self.port}",
            policies=self.house.state.policies.digest[:12],
            dev=settings.dev,
        )
        calm_collector()
        if settings.dev:
            self.house.log.warning("dev", text="--dev: every caller may do everything")

    def _all_keepers(self) -> list[Keeper]:
        house = self.house
        kept = Kept(bodies_ms=self.settings.body_retention_ms)
        of_leases = LeaseKeepers(
            house.ledger, lambda: house.state.policies, self._lease_metrics, house.log
        )
        alerts = AlertSender(
            house.ledger, house.outbound, self.clock, self._case_metrics, house.log,
            Receiver.of(self.settings),
        )  # fmt: skip
        return [
            *LedgerKeepers(house.ledger, house.metrics, house.log, kept).all(),
            *self._risks.all(),
            *of_leases.all(),
            *WorkKeepers(house.ledger, self._work_metrics).all(),
            *CaseKeepers(house.ledger, self._case_metrics, alerts).all(),
            Keeper("reconciler", 0.05, self._reconciler.turn),
            Keeper("policies", 1.0, self.policies.look),
            Keeper("principals", 2.0, self._look_at_principals),
            Keeper("spool", 600.0, self._sweep_spool),
        ]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.raw_path.startswith(PREFIX):
            return await self._data.handle(request)
        return await self._control.handle(request)

    def readiness(self) -> Readiness:
        """Return whether traffic should come here, with the reasons if not."""
        state = self.house.state
        reasons = []
        if state.draining:
            reasons.append("draining")
        if state.ledger_error is not None:
            reasons.append(f"the ledger cannot be written: {state.ledger_error}")
        if state.unwritten:
            reasons.append(f"{state.unwritten} outcomes are not written to the ledger yet")
        detail = {
            "version": __version__,
            "in_flight": len(self.house.inflight),
            "degraded": self._risks.told,
            "ledger": {
                "ok": state.ledger_error is None,
                "unwritten": state.unwritten,
                "unsafe": self.settings.ledger_unsafe,
            },
            "policies": self.policies.report(),
            "principals": {"rejected": self._principals_error},
        }
        return Readiness(reasons, detail)

    def _read_policy(self, name: str, text: str) -> Destination | None:
        return read_destination(f"{name} (as it was)", text, self.settings.policies, os.environ)

    async def _look_at_principals(self) -> None:
        """Load the principals again if their file changed; a broken one changes nothing."""
        path = self.settings.principals
        if path is None:
            return
        seen = await asyncio.to_thread(file_stamp, path)
        if seen != self._principals_seen:
            self._principals_seen = seen
            try:
                self.house.authenticator.replace(_principals(self.settings))
            except SettingsError as error:
                self._principals_error = str(error)
                self.house.log.error("principals-rejected", text=str(error))
                return
            self._principals_error = None
            self.house.log.info("principals", file=str(path))

    async def _sweep_spool(self) -> None:
        kept = await self.house.ledger.kept_files()
        await self.house.spool.sweep(kept, 3600.0, self.clock.wall_ms() / 1000)

    # -- stopping

    async def drain(self, hurry: asyncio.Event) -> None:
        """Refuse new writes, wait for those under way, record the rest as unknown."""
        house = self.house
        house.state.draining = True
        self._closing.set()
        house.metrics.draining.set(1)
        longest_ms = house.state.policies.longest_timeout_ms
        seconds = self.settings.drain_for_s(longest_ms)
        house.log.info("draining", seconds=seconds, in_flight=len(house.inflight))
        waiting = asyncio.ensure_future(house.tasks.drain(seconds))
        hurrying = asyncio.ensure_future(hurry.wait())
        await asyncio.wait({waiting, hurrying}, return_when=asyncio.FIRST_COMPLETED)
        for task in (waiting, hurrying):
            task.cancel()
        await self._give_up()

    async def _give_up(self) -> None:
        """Record what is still under way as unknown, then let go of it."""
        house = self.house
        for running in house.inflight.left():
            settlement = Settlement(
                effect_id=running.effect_id,
                n=running.n,
                outcome=Outcome.UNKNOWN,
                reason="gateway-stopped",
            )
            try:
                await house.ledger.settle(settlement)
                house.log.warning("gave-up", effect_id=running.effect_id)
            except (LedgerUnavailable, RecordLost) as error:
                # The intent stays; the next start finds it and makes it unknown.
                house.log.error("gave-up", effect_id=running.effect_id, error=str(error))
        house.tasks.cancel_all()
        await house.tasks.drain(GIVE_UP_S)

    async def stop(self) -> None:
        """Close everything, in the order opposite to building."""
        self._closing.set()
        self._keepers.cancel_all()
        await self._keepers.drain(GIVE_UP_S)
        if self._runner is not None:
            await self._runner.cleanup()
        await self.house.outbound.close()
        await self.house.ledger.close()
        self.house.log.info("stopped")


async def serve(
    settings: Settings, *, force_policies: bool = False, clock: Clock | None = None
) -> None:
    """Run a gateway until SIGTERM or SIGINT; a second signal does not wait for anything."""
    gateway = await Gateway.build(settings, clock, force_policies=force_policies)
    asked, hurry = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        if asked.is_set():
            hurry.set()
        asked.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    loop.add_signal_handler(signal.SIGHUP, gateway.policies.ask)
    try:
        await gateway.start()
        await asked.wait()
        await gateway.drain(hurry)
    finally:
        await gateway.stop()


def _home(settings: Settings) -> Home:
    place = settings.ledger_place()
    return home_at(
        place if isinstance(place, Path) else place.url,
        settings.ledger_password(),
        unsafe=settings.ledger_unsafe,
    )


def _principals(settings: Settings) -> Mapping[str, Principal]:
    return {} if settings.principals is None else load_principals(settings.principals)


def _today() -> date:
    return datetime.fromtimestamp(SystemClock().wall_ms() / 1000, UTC).date()


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"--tls-cert {settings.tls_cert} and --tls-key {settings.tls_key} do not load: {error}"
        ) from error
    return context


def _write_port(path: Path, port: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = path.with_name(path.name + ".new")
    waiting.write_text(f"{port}\n", "ascii")
    waiting.replace(path)
