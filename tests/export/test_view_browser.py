"""Perfetto's interface in a browser, as `tracelab view` serves it."""

from tests.browser import browser, needs_browser
from tests.export.perfetto import needs_interface


@needs_interface
@needs_browser
def test_perfettos_interface_opens_the_trace_and_calls_nobody(viewed):
    _, url = viewed
    with browser() as page:
        page.call("Network.enable")
        page.call("Page.navigate", url=url)
        page.until("document.body?.innerText.includes('rank 0 · GPU 0')")
        sent = [each["params"] for each in page.events if each.get("method") == "Network.requestWillBeSent"]
        failed = {
            each["params"]["requestId"]
            for each in page.events
            if each.get("method") == "Network.loadingFailed" and each["params"].get("blockedReason") == "csp"
        }
    away = [each for each in sent if not each["request"]["url"].startswith((url.split("?")[0], "blob:", "data:"))]
    assert sum(each["request"]["url"].endswith("/localtrace") for each in sent) == 1
    assert [each["request"]["url"] for each in away if each["requestId"] not in failed] == []
