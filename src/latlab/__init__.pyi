from latlab import bench as bench
from latlab import jitter as jitter
from latlab import market as market
from latlab import messaging as messaging
from latlab import queues as queues
from latlab import requests as requests
from latlab import stubs as stubs
from latlab.api import diagnose as diagnose

__all__ = ["__version__", "diagnose", "get_cmake_dir", "get_include"]

__version__: str

def get_include() -> str: ...
def get_cmake_dir() -> str: ...
