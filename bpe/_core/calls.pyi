from collections.abc import Callable
from typing import Any

def before(method: Callable[..., Any]) -> Callable[..., Any]: ...
