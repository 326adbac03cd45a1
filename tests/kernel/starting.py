"""When a recorder takes events."""

import glob
import time

PATIENCE = 30


def wait_for(recorder):
    """Waits until a recorder has begun to take events of the kernel."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and recorder.poll() is None:
        found = glob.glob(f"/sys/kernel/tracing/instances/reenact-{recorder.pid}-*/tracing_on")
        try:
            if found and all(open(path).read().strip() == "1" for path in found):
                # It looks at who is there.
                return time.sleep(0.3)
        except OSError:
            pass
        time.sleep(0.02)
    assert False, "the recorder takes no events"
