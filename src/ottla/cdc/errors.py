"""Why a capture cannot run, in a sentence that says what to do about it."""


class CaptureError(Exception):
    """Trying again would not help: a setting, a privilege or the state of PostgreSQL has to change first."""
