"""Takes requests apart: where each one's time went."""

from latlab.requests.parts.account import Account
from latlab.requests.parts.spent import PREEMPTED, Spent, merged

__all__ = ["PREEMPTED", "Account", "Spent", "merged"]
