// What the monitor sees: all of it at first, then what has changed. A revision is a state of it; each change says after which one it comes.

function replaceItems(items, changed, key) {
  if (changed.length === 0) return items;
  const fresh = new Map(changed.map((one) => [one[key], one]));
  return items.map((one) => fresh.get(one[key]) ?? one);
}

/** The status after a message; null if something was missed before it. */
export function merge(status, message) {
  if (message.status) return { ...message.status, revision: message.revision };
  if (status === null || message.after !== status.revision) return null;
  const { revision, time_seconds, pairs, agents, links, rest } = message;
  return {
    ...status, ...rest, revision, time_seconds,
    pairs: replaceItems(status.pairs, pairs, "id"), agents: replaceItems(status.agents, agents, "id"), links: replaceItems(status.links ?? [], links, "name"),
  };
}

const MILLISECONDS_BEFORE_RETRY = 5000;

/**
 * Follows the news. `latest` returns the status that is shown, `take` is told of each message, `ask` asks for all that is new.
 *
 * One tab has the stream and passes on what comes: browsers open six connections to a host at most, for all tabs together.
 */
export function follow({ latest, take, ask }) {
  const channel = new BroadcastChannel("changes");
  channel.onmessage = ({ data }) => take(data);
  const open = async () => {
    if (latest() === null) await ask();
    const source = new EventSource(`/api/v1/stream?after=${encodeURIComponent(latest()?.revision ?? "")}`);
    const again = () => {
      source.close();
      setTimeout(() => ask().then(open), MILLISECONDS_BEFORE_RETRY);
    };
    source.addEventListener("change", ({ data }) => {
      const message = JSON.parse(data);
      take(message);
      channel.postMessage(message);
    });
    source.addEventListener("behind", () => { source.close(); ask().then(open); });
    // A browser tries again by itself, unless it was refused.
    source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED) again(); });
  };
  navigator.locks.request("stream", () => { open(); return new Promise(() => {}); });
}
