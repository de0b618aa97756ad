"""The frozen facts that admission judges: one PoolSnapshot of a pool, and nothing else.

A pool is a flavor and a capacity type: all that want it share its nodes, whatever their team or cohort.
Times are whole seconds since the epoch, so that a snapshot is plain JSON, has one content hash and replays exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workloads.placement import FlavorFacts
from workloads.podrequests import Others

NEW = ""
"""Id of a waiter that has not been submitted."""
Beside = tuple[int, ...]
"""What a pod asks for besides units: millicores of CPU, bytes of memory and of ephemeral storage. Empty for nothing."""
Amounts = tuple[int, ...]
"""What pods ask for together: as Beside, and behind these how many pods they are. Empty where that is not known."""


@dataclass(frozen=True)
class Account:
    """A team's quota, or what a cohort's members lend each other: a node of the borrowing tree (Kueue's arithmetic).

    `guaranteed` is the nominal quota of a team, or the sum of what a cohort's members lend; its part `local` is never
    lent. `ceiling` is the most that may ever be used here. `used` above `local` is used of the parent too.
    """

    name: str
    parent: str | None
    guaranteed: int
    local: int
    ceiling: int
    used: int


@dataclass(frozen=True)
class PriceFacts:
    """Micro-USD for an hour of the flavor's card in `[since, until)`; `until` None for no end."""

    since: int
    until: int | None
    micro_usd: int


@dataclass(frozen=True)
class BudgetFacts:
    """A team's budget in its present period, in micro-USD: `amount` with what is given on top of it, and what of that
    is `committed`: spent, or promised to what runs.
    """

    amount: int
    committed: int
    ends_at: int
    renews: bool
    """Whether another period follows with the whole amount."""

    @property
    def left(self) -> int:
        return max(0, self.amount - self.committed)


@dataclass(frozen=True)
class TeamFacts:
    """A team in this pool. `use` is decayed use in GPU-equivalent seconds, `weight` what it is divided by."""

    slug: str
    account: str
    use: int = 0
    weight: int = 1
    stopped: str = ""
    """Why its queue is stopped; empty while it is not."""
    user_limit: int | None = None
    max_time_limit_seconds: int | None = None
    lendable: int = 0
    """Headroom of its endpoints that no run has borrowed."""
    ceilings: tuple[int | None, ...] = ()
    """The most of each of Amounts that the team may hold in all pools and without GPUs; None for no ceiling."""
    held: Amounts = ()
    """What it holds of these, wherever; the holders of this pool are a part of it."""
    budget: BudgetFacts | None = None

    @property
    def share(self) -> int:
        """What its use counts as: the team with the smaller share goes first."""
        return self.use // self.weight


@dataclass(frozen=True)
class Block:
    """A node that may take pods of this flavor now, and how many of its units are unused.

    Besides units it has CPU, memory, storage and places: `whole` for all workloads that are looked at here, and `left` is
    what they have not taken.
    """

    node: str
    size: int
    free: int
    whole: Others = ()
    left: Others = ()


@dataclass(frozen=True)
class Provisionable:
    """Nodes that do not exist yet: at most `units` more, `block` on each, and so much besides."""

    block: int
    units: int
    others: Others = ()


@dataclass(frozen=True)
class CardFacts:
    """The cards that this flavor is cut from, in parts of a card: `parts` make one, a unit takes `per_unit`.

    `free` is what is held by no claim of any flavor of the card and by no foreign pod.
    """

    card: str
    parts: int
    per_unit: int
    total: int
    free: int


@dataclass(frozen=True)
class Holder:
    """A workload that holds units of the pool, from its admission until its last pod is gone."""

    id: str
    team: str
    owner: str
    noun: str
    units: int
    units_each: int
    priority: int
    preemptible: bool
    age_seconds: int
    """Since its pods started; 0 for one whose pods have not."""
    lost_seconds: int
    """What stopping it now would lose: since its newest checkpoint, or since it started."""
    ends_in: int | None
    """Seconds until its time limit ends it; None for one without end."""
    expected_in: int | None
    """Seconds until it ends if it goes on as its reports or its team's history say."""
    leaving: bool = False
    """It is being stopped: what it holds is free within the grace period."""
    lent: bool = False
    """It lives on lent headroom of its team's endpoints and is not in its account's `used`."""
    placed: tuple[tuple[str, int], ...] = ()
    """Units on each node that its pods are bound to."""
    unplaced_pods: int = 0
    """Pods of `units_each` that no node has taken yet."""
    beside: Beside = ()
    """What each of those asks for besides units."""
    taken: tuple[Beside, ...] = ()
    """What its pods take besides, for each of `placed`: with a fourth number, how many they are."""
    most: Amounts = ()
    """What it holds of its team's ceilings."""


@dataclass(frozen=True)
class Waiter:
    """A workload in the queue, or one that a user may submit."""

    id: str
    team: str
    owner: str
    noun: str
    units: int
    """What it claims; for an endpoint at its maximum of replicas."""
    units_each: int
    pods: int
    """Pods that need a place when it starts."""
    priority: int
    queued_at: int
    sequence: int
    """Breaks ties of `queued_at`; a new one comes last."""
    seconds: int | None
    """What is left of its time limit; None for one without end."""
    expected_seconds: int | None
    preemptible: bool
    beside: Beside = ()
    """What each of its pods asks for besides units."""
    most: Amounts = ()
    """What it claims of its team's ceilings; for an endpoint at its maximum of replicas."""


@dataclass(frozen=True)
class Beyond:
    """Waiters of a team and priority that are further behind than a snapshot shows one by one."""

    team: str
    priority: int
    count: int
    units: int


@dataclass(frozen=True)
class AdmissionRules:
    """Platform settings that a verdict depends on, in seconds."""

    minimum_run_seconds: int = 300
    grace_seconds: int = 60


@dataclass(frozen=True)
class PoolSnapshot:
    """Everything that a judgement of this pool may look at."""

    flavor: FlavorFacts
    capacity_type: str
    now: int
    revision: int
    accounts: tuple[Account, ...]
    teams: tuple[TeamFacts, ...]
    blocks: tuple[Block, ...]
    """The nodes that are ready, schedulable and tolerated; what pods use, foreign ones too, is not free."""
    largest_block: int
    """The largest of any node ever observed and not gone, or declared: what one pod could ever get."""
    exists: str
    """A sentence with what nodes offer, for refusals."""
    hosts: tuple[tuple[int, Others], ...] = ()
    """The kinds of those nodes: how many units, and what they have besides, used or not."""
    nodes_seen: bool = True
    """Whether the cluster's nodes were ever listed; before that, nothing is too large for them."""
    provisionable: Provisionable = Provisionable(0, 0)
    card: CardFacts | None = None
    holders: tuple[Holder, ...] = ()
    waiters: tuple[Waiter, ...] = ()
    beyond: tuple[Beyond, ...] = ()
    far: str = ""
    """Id of a waiter that is shown although it stands further behind than its team's others; empty for none."""
    before_far: int = 0
    """How many of its own team and priority stand before it that are not shown."""
    rules: AdmissionRules = field(default_factory=AdmissionRules)
    prices: tuple[PriceFacts, ...] = ()
    """Of the flavor's card from now on, first to last; read only where a team has a budget."""
