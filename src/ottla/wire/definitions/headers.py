"""What stands before a request and a response body (KIP-482)."""

from typing import Final

MESSAGES: Final = """\
RequestHeader: header, versions 1-2, flexible 2+
  request_api_key: int16
  request_api_version: int16
  correlation_id: int32
  client_id: legacy_string?

ResponseHeader: header, versions 0-1, flexible 1+
  correlation_id: int32
"""
