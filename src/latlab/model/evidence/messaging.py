"""What a check of a transport says: which promise was checked, and how it is broken."""

from __future__ import annotations

from latlab.model.evidence.said import Kind

__all__ = ["Broken", "Promise"]


class Promise(Kind):
    """What a transport is checked for."""

    HAS_CALLS = "has {names} and {last}"
    ENDS_ANSWER = "its ends answer ({waits})"
    WAITING_BY = "{promise} ({waits})"
    IDLE_RETURNS = "an idle receive returns within 100 ms, with nothing"
    FULL_IS_SAID = "a full way says so, and keeps what it took"
    NOTHING_LEFT = "nothing is left behind by opening and closing"
    CLOSED_IS_HEARD = "the receiver hears the rest, then nothing, after its sender has closed"
    CARRIES_SIZE = "carries messages of {bytes:size} over {hops}"
    CARRIES_AT_FULL_RATE = "carries {messages:count} messages at full rate over {hops}"
    CARRIES_AT_A_PACE = "carries {messages:count} messages at a pace over {hops}"
    KEEPS_UNTAKEN = "keeps what a slow receiver has not taken yet, over {hops}"
    CONNECTS = "can be connected"
    BOTH_CONNECT = "both ends connect"
    TIMES_OUT = "keeps to the time-out of an idle receive"
    SLEEPS = "sleeps while nothing arrives"
    TELLS_SENDER_ENDED = "tells, or waits, when its sender has ended"
    TELLS_RECEIVER_KILLED = "tells, or waits, when its receiver was killed"
    NO_FILES_LEFT = "leaves no files behind"
    FILES_UNKNOWN = "leaves no files behind (not checked: other programs left files meanwhile)"
    CLOSES_DESCRIPTORS = "closes its descriptors"
    ENDS_THREADS = "ends its threads"


class Broken(Kind):
    """How a promise is broken."""

    NO_CALL = "no {name}"
    NOT_WITHIN = "not within {seconds:seconds}"
    PROCESS_ENDED = "the process with them ended: {why}"
    NOT_OPENED = "could not be opened: {why}"
    RETURNED = "returned {number}"
    TOOK = "took {seconds:seconds}"
    SLEPT = "slept {slept_ns:duration}; asked not to wait, it has to return at once"
    FULL_SEND_BLOCKS = "a send that has no room does not return within 100 ms"
    FULL_SEND_REFUSED = "send refused with {error} where it should say 0"
    BROUGHT_FEWER = "took {taken} messages and brought {brought}"
    BROUGHT_ANOTHER = "message {number} of {taken} came back as another one"
    BROUGHT_OTHERS = "of {taken} messages some came back as others"
    GREW = "{more} {what} after {times} times"
    EMPTY_HAD_NO_ROOM = "an empty way had no room for one message"
    LAST_DID_NOT_ARRIVE = "the last message did not arrive"
    THEN_RETURNED = "then returned {number}"
    END_NOT_RETURNED = "a receive goes on to return 0 and not -EPIPE, although the sender's end is closed"

    NONE_WHOLE = "none of {sent} arrived whole"
    NOT_AS_SENT = "{corrupted} corrupted, {duplicated} duplicated"
    LOST = "promises to lose nothing and lost {lost} of {sent}"
    REORDERED = "promises order and reordered {reordered} of {sent}"
    LOST_AT_A_PACE = "lost {lost} of {sent} at a slow pace"
    NOTHING_ARRIVED = "nothing arrived"

    NOT_BOTH = "one did not within {seconds:seconds}, or ended"
    NOT_CONNECTED = "the ends did not connect"
    LATE_TIME_OUT = "a receive with a time-out of {timeout_s:seconds} did not return within {seconds:seconds}"
    IDLE_GAVE = "an idle receive gave '{what}'"
    IDLE_SAID_GONE = "an idle receive said that the peer has gone"
    TIME_OUT_LONG = "a receive with a time-out of {timeout_s:seconds} took {seconds:seconds}"
    TIME_OUT_SHORT = "a receive with a time-out of {timeout_s:seconds} gave up after {seconds:seconds}"
    SPINS = "an idle receive used {cpu_s:seconds} of CPU in {seconds:seconds}: it spins"
    POLLS = "an idle receive woke up {times} times in {seconds:seconds}: it polls"
    NOT_SENT = "the sender could not send one message and close"
    ENDED_UNHEARD = "a receive did not return within {seconds:seconds} after the sender had ended"
    ENDED_GAVE = "a receive gave '{what}' after the sender had ended, not TransportClosed"
    ENDED_KEPT_QUIET = (
        "a receive sees that the sender has ended, and says 'nothing yet' instead of TransportClosed"
    )
    CLOSED_KEPT_QUIET = (
        "the sender's connection is closed, and a receive says 'nothing yet' instead of TransportClosed"
    )
    SENT_TO_NONE = "promises to lose nothing, and took {messages:count} messages for a receiver that is gone"
    FILES_LEFT = "{files} file(s) such as {first}"
    DESCRIPTORS_LEFT = "{more} more are open after two more connections"
    THREADS_LEFT = "{more} more run after two more connections"
