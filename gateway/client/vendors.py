"""Clients of four vendors' SDKs that go through the gateway, made from public hooks only.

The SDKs are imported where they are used: none of them is a dependency. Each client

- gets the gateway token, or a stand-in, as its API key: the gateway holds the real one;
- may retry as its user likes. A retry has the same key, so it meets the record of the first try;
- raises the errors of `gateway.client.errors` for what the gateway refuses. They are none of the
  SDK's own, so that `except SlackApiError` does not swallow that somebody else leads.

`wait_s` makes an SDK's quick retry wait for the first try's answer, where it would be told
that it is still in flight.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from gateway.client.command import Command, Gate, door
from gateway.client.errors import FencegateError

if TYPE_CHECKING:
    from simple_salesforce.api import Salesforce
    from slack_sdk import WebClient
    from stripe import StripeClient
    from urllib3.util.retry import Retry

WAIT_S: Final = 10
STAND_IN: Final = "held-by-the-gateway"


def stripe_client(
    *,
    gateway: str | None = None,
    token: str | None = None,
    destination: str = "stripe",
    wait_s: int | None = WAIT_S,
    timeout_s: float = 80,
    verify: bool | str | None = None,
    **options: Any,
) -> StripeClient:
    """Return a StripeClient. Its random Idempotency-Key gives way to the fence's.

    `options` are StripeClient's, `max_network_retries` for one: what may go again does so by
    Stripe's own retry, what may not is not retried. The `_async` methods need httpx.
    """
    import stripe

    from gateway.client.requests import fence_session

    known = {"https://api.stripe.com": destination}
    session = fence_session(known, gateway=gateway, token=token, wait_s=wait_s, verify=verify)
    gate = _stripe_async(known, gateway, token, wait_s, timeout_s, verify)
    client = _stripe_requests()(timeout=timeout_s, session=session, async_fallback_client=gate)
    return stripe.StripeClient(token or STAND_IN, http_client=client, **options)


def _stripe_requests() -> Any:
    """Return an HTTP client class for Stripe. Stripe wraps whatever is raised below it in an
    APIConnectionError; this one sets whether it is retried, and unwraps what is left."""
    import stripe

    class Fenced(stripe.RequestsClient):
        def request(self, *args: Any, **more: Any) -> Any:
            try:
                return super().request(*args, **more)
            except stripe.APIConnectionError as error:
                if isinstance(error.__cause__, FencegateError):
                    error.should_retry = error.__cause__.retryable
                raise

        def request_with_retries(self, *args: Any, **more: Any) -> Any:
            with _unwrapping(stripe.APIConnectionError):
                return super().request_with_retries(*args, **more)

        async def request_with_retries_async(self, *args: Any, **more: Any) -> Any:
            with _unwrapping(stripe.APIConnectionError):
                return await super().request_with_retries_async(*args, **more)

    return Fenced


def _stripe_async(
    known: Mapping[str, str],
    gateway: str | None,
    token: str | None,
    wait_s: int | None,
    timeout_s: float,
    verify: bool | str | None,
) -> Any:
    """Return the part for Stripe's async methods. Its own HTTPXClient takes no transport, and
    retries whatever is raised."""
    try:
        import httpx
        import stripe

        from gateway.client.httpx import AsyncFenceTransport
    except ImportError:
        return None
    inner = httpx.AsyncHTTPTransport(verify=True if verify is None else verify)
    transport = AsyncFenceTransport(known, gateway=gateway, token=token, wait_s=wait_s, inner=inner)
    client = httpx.AsyncClient(transport=transport, timeout=timeout_s)
    connection_error: Any = stripe.APIConnectionError

    class Fenced(stripe.HTTPClient):
        name = "httpx"

        async def request_async(
            self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None
        ) -> tuple[bytes, int, Mapping[str, str]]:
            try:
                answer = await client.request(method, url, headers=dict(headers), content=post_data)
            except (httpx.TransportError, FencegateError) as error:
                again = isinstance(error, httpx.TransportError) or error.retryable
                raise connection_error(str(error), should_retry=again) from error
            return answer.content, answer.status_code, answer.headers

        async def sleep_async(self, secs: float) -> None:
            await asyncio.sleep(secs)

        async def close_async(self) -> None:
            await client.aclose()

    return Fenced()


@contextmanager
def _unwrapping(wrapper: type[Exception]) -> Iterator[None]:
    try:
        yield
    except wrapper as error:
        if isinstance(error.__cause__, FencegateError):
            raise error.__cause__ from None
        raise


def salesforce_client(
    instance: str,
    *,
    gateway: str | None = None,
    token: str | None = None,
    destination: str = "salesforce",
    wait_s: int | None = WAIT_S,
    max_retries: int | Retry = 0,
    **options: Any,
) -> Salesforce:
    """Return a Salesforce client for an instance, as `acme.my.salesforce.com`.

    The SDK itself does not retry; `max_retries` is for urllib3 below it. `options` are
    Salesforce's. Without login: after one, the SDK answers each 401 with a new login and the
    same request again, without end for records.
    """
    from simple_salesforce.api import Salesforce

    from gateway.client.requests import fence_session

    session = fence_session(
        {f"https://{instance}": destination},
        gateway=gateway,
        token=token,
        wait_s=wait_s,
        max_retries=max_retries,
    )
    return Salesforce(instance=instance, session_id=token or STAND_IN, session=session, **options)


def slack_client(
    *,
    gateway: str | None = None,
    token: str | None = None,
    destination: str = "slack",
    wait_s: int | None = WAIT_S,
    **options: Any,
) -> WebClient:
    """Return a WebClient. Its default handler posts again after a lost connection: under the
    same key."""
    from slack_sdk import WebClient
    from slack_sdk.errors import SlackApiError

    gate = Gate({}, gateway=gateway, token=token, wait_s=wait_s)

    class Fenced(WebClient):
        def api_call(
            self, api_method: str, *, headers: dict[str, str] | None = None, **more: Any
        ) -> Any:
            command = gate.command("POST", f"{self.base_url}{api_method}", headers or {})
            fields = dict(command.fields((headers or {}).items()))
            try:
                answer = super().api_call(api_method, headers=fields, **more)
            except SlackApiError as error:
                answer = error.response
                _raise_refusal(command, answer.status_code, answer.headers, answer.data)
                raise
            _raise_refusal(command, answer.status_code, answer.headers, answer.data)
            return answer

    base_url = f"{door(gateway, destination)}/api/"
    return Fenced(token=token or STAND_IN, base_url=base_url, **options)


def hubspot_client(
    *,
    gateway: str | None = None,
    token: str | None = None,
    destination: str = "hubspot",
    wait_s: int | None = WAIT_S,
    **options: Any,
) -> Any:
    """Return a HubSpot client. `options` are HubSpot's, `retry` for one.

    Not for `api_request` and `async_req`: the one goes round the gateway, the other into a
    thread that knows of no leadership.
    """
    from hubspot import HubSpot  # type: ignore[import-untyped]  # it has none

    gate = Gate({}, gateway=gateway, token=token, wait_s=wait_s)

    def factory(package: Any, api_name: str, config: Mapping[str, Any]) -> Any:
        configuration = package.Configuration()
        for name, value in config.items():
            setattr(configuration, "retries" if name == "retry" else name, value)
        if configuration.retries is not None:  # the last answer, not urllib3's MaxRetryError
            configuration.retries = configuration.retries.new(raise_on_status=False)
        client = _hubspot_api_client(package, gate)(configuration=configuration)
        return getattr(package, api_name)(api_client=client)

    return HubSpot(
        access_token=token or STAND_IN,
        host=door(gateway, destination),
        api_factory=factory,
        **options,
    )


def _hubspot_api_client(package: Any, gate: Gate) -> Any:
    class Fenced(package.ApiClient):  # type: ignore[misc]  # the SDK has no types
        def request(
            self,
            method: str,
            url: str,
            query_params: Any = None,
            headers: dict[str, str] | None = None,
            **more: Any,
        ) -> Any:
            command = gate.command(method, url, headers or {})
            fields = dict(command.fields((headers or {}).items()))
            try:
                answer = super().request(method, url, query_params, fields, **more)
            except package.ApiException as error:
                _raise_refusal(command, error.status, error.headers, error.body)
                raise
            if more.get("_preload_content", True):
                _raise_refusal(command, answer.status, answer.getheaders(), answer.data)
            return answer

    return Fenced


def _raise_refusal(command: Command, status: int, headers: Mapping[str, str], body: Any) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    refusal = command.take_answer(status, headers, raw)
    if refusal is not None:
        raise refusal
