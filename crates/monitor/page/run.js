// One measurement: what it has found in each direction, how sure that is, and the document.
import { element } from "./dom.js";
import * as format from "./format.js";

/** As the schema of the document has them. */
const LIMITS = {
  sender: "the sender: it cannot send faster", host: "a host: it may take as long for each packet", budget: "the budget of the measurement, which was spent",
  range: "the method, which tries no other rates", "token-bucket": "a token bucket: more passes for a burst only", "growing-queue": "a queue that grew or was full at no more than this",
  loss: "losses of longer trains at no more than this",
  "nearly-full": "a path that is nearly full: what is free may be what other connections give up", "flow-queueing": "flow queueing: each flow has a queue of its own",
};

/** A value with its interval; a bound; or why there is neither. */
function availableText(direction) {
  const estimate = direction.available_bits_per_second;
  if (estimate) return format.rateEstimate(estimate).join(" (") + ")";
  const bounds = [["at_least_bits_per_second", "at least"], ["at_most_bits_per_second", "at most"]];
  const known = bounds.filter(([key]) => direction[key]).map(([key, word]) => `${word} ${format.rate(direction[key])}`);
  return known.join(", ") || "not known";
}

function rows(direction) {
  const capacity = direction.capacity;
  const bottleneck = capacity?.bottleneck_bits_per_second;
  const { load } = direction;
  const seconds = (direction.duration_seconds ?? 0) + (capacity?.duration_seconds ?? 0) + (load?.duration_seconds ?? 0);
  const bytes = (direction.bytes_sent ?? 0) + (capacity?.bytes_sent ?? 0) + (load?.bytes ?? 0);
  return [
    ["Available bandwidth", availableText(direction)],
    ["Why no value", direction.reason],
    ["Limited by", direction.limited_by && (LIMITS[direction.limited_by] ?? direction.limited_by)],
    ["Capacity", bottleneck ? `${format.rateEstimate(bottleneck).join(" (")})` : capacity?.reason],
    ["Note", (direction.warnings ?? []).join("; ")],
    ["How", `${direction.method} over ${direction.transport}: ${direction.trains} trains, ${direction.trains_rejected} more not used`],
    ["Sent", `${format.size(bytes)} in ${format.span(seconds)}`],
  ].filter(([, text]) => text);
}

/** `names` are those of the two directions; `run` is as the monitor tells it. */
export function runFacts(run, names) {
  const { document } = run;
  if (!document) return [element("p", {}, "The document is no longer kept.")];
  if (document.error) return [element("p", {}, element("span", { class: "state bad" }, "failed"), ` ${document.error.message ?? run.error}`)];
  const part = (name) => {
    if (!document[name]) return [];
    const row = ([title, text]) => element("tr", {}, element("th", { scope: "row" }, title), element("td", {}, text));
    return [element("h2", {}, names[name]), element("div", { class: "scroll" }, element("table", { class: "described" }, element("tbody", {}, rows(document[name]).map(row))))];
  };
  return [...part("up"), ...part("down")];
}
