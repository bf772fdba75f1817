"""How a run may end before its time. Whatever it was, `result` holds all up to there."""

from hush.runs.result import Result


class Diverged(RuntimeError):
    """Every lane met a number that is not finite. `result` holds all up to there."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or another `signal` to stop. `result` holds all up to there, and a run folder can be resumed."""

    def __init__(self, message: str, result: Result, signal: int) -> None:
        super().__init__(message)
        self.result, self.signal = result, signal


class CallbackFailed(RuntimeError):
    """`on_evaluate` failed. `result` holds all up to there, and a run folder can be resumed."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result


class WriteFailed(OSError):
    """The run folder could not be written. `result` holds all up to there, `save` writes it elsewhere."""

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result
