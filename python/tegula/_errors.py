"""Exceptions for the error codes of the C interface."""
from . import _c


class Failure(Exception):
    """An error of the library: the message contains the mistake, a way to fix it, and the location in the C++ source.

    code         TegulaCode
    driver_code  CUresult, or 0
    hint, where  parts of the message
    """

    def __init__(self, error):
        self.code, self.driver_code = error.code, error.driver_code
        self.hint, self.where = error.hint.decode(), error.where.decode()
        parts = [error.text.decode()]
        if self.hint:
            parts.append("hint: " + self.hint)
        if self.where:
            parts.append("at " + self.where)
        super().__init__("\n".join(parts))


class Error(Failure, RuntimeError):
    """The kernel, the machine or Tegula is at fault."""


class ArgumentError(Failure, ValueError):
    """The arguments are invalid."""


def raise_last(api):
    """Raises the error of this thread's last call."""
    error = api.tegula_last_error().contents
    raise (ArgumentError if error.code == _c.ARGUMENT else Error)(error)
