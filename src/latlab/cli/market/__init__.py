"""`latlab market`: market data to the inside, the statistics, and the delay between two feeds."""

from latlab.cli.market.command import market

__all__ = ["market"]
