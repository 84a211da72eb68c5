"""API key → tenant: who is served, kept at hand by the time of last use, and who was refused.

A key gets a place only once the gateway has accepted it, so that no flood of bad ones takes anybody's. The lock is
never held while the gateway is asked. It knows nothing of HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from threading import Lock, Semaphore

from cachetools import Cache, LRUCache, TTLCache

from colabhive_mcp.bridge import Bridge, build_bridge
from colabhive_mcp.config import Settings
from colabhive_mcp.errors import GatewayError, KeyRefused
from colabhive_mcp.protocol.server import Server
from colabhive_mcp.protocol.toolbox import Verbosity
from colabhive_mcp.telemetry.events import (
    Event,
    KeyTurnedAway,
    ManifestFailed,
    OfTenant,
    Record,
    TenantAdded,
    TenantEvicted,
)
from colabhive_mcp.telemetry.logs import Redaction
from colabhive_mcp.transports.identity import build_server
from colabhive_mcp.transports.workers import Lane

PROOF_SECONDS = 5.0  # that a request waits for what the gateway says of its key
ASKED_AT_ONCE = 8  # keys about which the gateway is asked: a flood of them leaves the processor to others
BUILT_AT_ONCE = 2  # tenants that are made, which takes the processor alone
REFUSED_SECONDS = 30.0  # for which a refused key is remembered
REFUSED_MOST = 10_000
CANDIDATES_LEAST = 128  # who is asked about at the same time, however few get a place, must not push out one another
REFUSALS = (401, 403)
SHOWN_DIGITS = 16  # of a key's digest, in logs
OnRefused = Callable[[KeyRefused], None]


@dataclass(slots=True, eq=False)
class Tenant:
    """One key's server with its tools, and how many requests use it now.

    *verbosity* is what its legacy clients asked to be told: their requests have no session of their own.
    """

    digest: str
    bridge: Bridge
    server: Server
    record: Record
    redact: Redaction
    verbosity: Verbosity = field(default_factory=Verbosity)
    uses: int = 0
    proven: bool = False
    proof: Future[None] | None = None
    evicted: bool = False
    closed: bool = False


Build = Callable[[str, str, OnRefused], Tenant]


def compute_digest(key: str) -> str:
    """What stands for *key* inside; its first digits do in logs."""
    return sha256(key.encode()).hexdigest()


class _Places(LRUCache[str, Tenant]):
    """Places for *capacity* tenants; who was asked for the longest time ago is pushed out, into *pushed*.

    Who loses a place is marked while the lock is held: nobody may then give him another one.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.pushed: list[Tenant] = []

    @property
    def tenants(self) -> list[Tenant]:
        """Those who have a place; to look at them is no use of theirs, as it would be by ``values``."""
        return [Cache.__getitem__(self, digest) for digest in self]

    def popitem(self) -> tuple[str, Tenant]:
        digest, tenant = super().popitem()
        tenant.evicted = True
        self.pushed.append(tenant)
        return digest, tenant

    def take_pushed(self) -> list[Tenant]:
        """Those pushed out since the last time, for somebody to let go."""
        pushed, self.pushed = self.pushed, []
        return pushed

    def take_out(self, tenants: Iterable[Tenant]) -> list[Tenant]:
        """Those of *tenants* that have a place here, which they lose."""
        found = [tenant for tenant in tenants if self.get(tenant.digest) is tenant]
        for tenant in found:
            tenant.evicted = True
            del self[tenant.digest]
        return found


class Tenants:
    """The tenants of one relay, for any number of threads.

    *build* makes one of a key and its digest, and a callable to tell that the key was refused. *proving* takes a place
    for who asks the gateway about a key, or waits for that, and answers how it is given back; it may refuse.
    """

    _building = Semaphore(BUILT_AT_ONCE)  # one for all, since the threads of a lane have no end and a reload makes anew
    _asking = Lane("proof", ASKED_AT_ONCE)

    def __init__(
        self,
        build: Build,
        *,
        capacity: int,
        proving: Callable[[], Callable[[], None]],
        record: Record,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._build = build
        self._proving = proving
        self._record = record
        self._lock = Lock()
        self._resident = _Places(capacity)
        self._candidates = _Places(max(capacity, CANDIDATES_LEAST))
        self._refused: TTLCache[str, KeyRefused] = TTLCache(REFUSED_MOST, REFUSED_SECONDS, timer=clock)

    @property
    def resident(self) -> list[Tenant]:
        """Those who have a place."""
        with self._lock:
            return self._resident.tenants

    def acquire(self, key: str) -> Tenant:
        """The tenant of *key*, in use until it is released.

        Raises KeyRefused where the gateway refuses it. While the gateway cannot be asked, the tenant has no place yet,
        and its calls say what is wrong.
        """
        digest = compute_digest(key)
        tenant = self._find(digest)
        return tenant if tenant is not None and tenant.proven else self._check(tenant, digest, key)

    def release(self, tenant: Tenant) -> None:
        """It is used by one less; one that has lost its place is closed by the last."""
        with self._lock:
            tenant.uses -= 1
        self._end(tenant)

    def close(self, reason: str) -> None:
        """Let everybody go, each after its requests."""
        with self._lock:
            tenants = [tenant for places in self._all_places for tenant in places.take_out(places.tenants)]
        self._let_go(tenants, reason)

    @property
    def _all_places(self) -> tuple[_Places, _Places]:
        return self._resident, self._candidates

    def _find(self, digest: str, made: Tenant | None = None) -> Tenant | None:
        """Who has a place or may get one, else *made*, in use by one more. Raises KeyRefused for who was refused."""
        with self._lock:
            refused = self._refused.get(digest)
            if refused is not None:
                raise KeyRefused(refused.message, status=refused.status)
            tenant = self._resident.get(digest) or self._candidates.get(digest)
            if tenant is None and made is not None:
                tenant = self._candidates[digest] = made
            if tenant is not None:
                tenant.uses += 1
            pushed = self._candidates.take_pushed()
        self._let_go(pushed, "capacity")
        return tenant

    def _check(self, tenant: Tenant | None, digest: str, key: str) -> Tenant:
        """Have the gateway asked about the key of *tenant*, who is made, where he is None, once there is a place."""
        try:
            with ExitStack() as place:
                place.callback(self._proving())
                tenant = tenant or self._introduce(digest, key)
                self._prove(tenant, place)
        except BaseException:
            if tenant is not None:
                self.release(tenant)
            raise
        return tenant

    def _introduce(self, digest: str, key: str) -> Tenant:
        """Somebody who may get a place; of two threads that bring the same key the first one's counts."""
        with self._building:
            made = self._build(key, digest, lambda error: self._refuse(made, error))
        tenant = None
        try:
            tenant = self._find(digest, made)
        finally:
            if tenant is not made:
                made.bridge.close()
        return tenant or made

    def _prove(self, tenant: Tenant, place: ExitStack) -> None:
        """Wait a while for what the gateway says of the key; a client's start must not wait for one that hangs."""
        try:
            self._find_proof(tenant, place).result(PROOF_SECONDS)
        except KeyRefused as error:
            raise KeyRefused(error.message, status=error.status) from None
        except (GatewayError, TimeoutError):
            return

    def _find_proof(self, tenant: Tenant, place: ExitStack) -> Future[None]:
        """The question that is open, or a new one, on a thread that keeps the *place* and nobody has to wait for."""
        with self._lock:
            if tenant.proof is not None:
                return tenant.proof
            proof: Future[None] = Future()
            tenant.proof = proof
            tenant.uses += 1
        kept = place.pop_all()
        kept.callback(self._end_proof, tenant)
        try:
            self._asking.submit(partial(self._ask, tenant, proof, kept))
        except BaseException as error:  # there is no thread to be had
            proof.set_exception(error)
            kept.close()
        return proof

    def _ask(self, tenant: Tenant, proof: Future[None], kept: ExitStack) -> None:
        try:
            tenant.bridge.prove()
            self._promote(tenant)
            proof.set_result(None)
        except KeyRefused as error:
            self._refuse(tenant, error)
            proof.set_exception(error)
        except BaseException as error:  # whatever it is, it is for those who wait
            proof.set_exception(error)
        finally:
            kept.close()

    def _end_proof(self, tenant: Tenant) -> None:
        with self._lock:
            tenant.proof = None
        self.release(tenant)

    def _promote(self, tenant: Tenant) -> None:
        """Give it a place, where another thread has not, and the key has not been refused meanwhile."""
        with self._lock:
            if tenant.proven or tenant.evicted or tenant.digest in self._refused:
                return
            self._candidates.pop(tenant.digest, None)
            tenant.proven = True
            self._resident[tenant.digest] = tenant
            count, pushed = len(self._resident), self._resident.take_pushed()
        self._tell(tenant, TenantAdded(count))
        self._let_go(pushed, "capacity")

    def _refuse(self, tenant: Tenant, error: KeyRefused) -> None:
        """The gateway does not take the key of *tenant*: it loses its place, and is not asked about for a while."""
        with self._lock:
            known = tenant.digest in self._refused
            self._refused[tenant.digest] = KeyRefused(error.message, status=error.status)
            lost = [each for places in self._all_places for each in places.take_out([tenant])]
        if not known:
            self._tell(tenant, KeyTurnedAway(error.status or 401))
        self._let_go(lost, "refused")

    def _let_go(self, tenants: Iterable[Tenant], reason: str) -> None:
        """Close those that no request uses; the others are closed by their last one. Of a candidate nothing is told."""
        for tenant in tenants:
            self._end(tenant)
            if tenant.proven:
                self._tell(tenant, TenantEvicted(len(self._resident), reason))

    def _end(self, tenant: Tenant) -> None:
        """Close it, once, where it has lost its place and no request uses it."""
        with self._lock:
            over = tenant.evicted and not tenant.uses and not tenant.closed
            tenant.closed = tenant.closed or over
        if over:
            tenant.bridge.close()

    def _tell(self, tenant: Tenant, event: Event) -> None:
        self._record(OfTenant(event, tenant.digest[:SHOWN_DIGITS]))


def find_oldest_age(tenants: Iterable[Tenant]) -> float:
    """Seconds since the oldest copy of a manifest at hand was known to be the gateway's; 0 where there is none."""
    return max((tenant.bridge.offer.age for tenant in tenants), default=0.0)


def build_tenant(settings: Settings, key: str, digest: str, on_refused: OnRefused, *, record: Record) -> Tenant:
    """The tenant of *key* under the relay's *settings*. What it records names it by its digest."""

    def tell(event: Event) -> None:
        refused = isinstance(event, ManifestFailed) and event.status in REFUSALS
        if not refused:  # which is told once, as what it is, however many there are
            record(OfTenant(event, digest[:SHOWN_DIGITS]))

    bridge = build_bridge(replace(settings, api_key=key), tell, on_refused=on_refused)
    server = build_server(bridge, transport="http", record=tell, announces=settings.max_streams > 0)
    return Tenant(digest, bridge, server, tell, Redaction([key]))
