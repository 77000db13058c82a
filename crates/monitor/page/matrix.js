// All hosts of a mesh: a row for each from which, a column for each to which. What is under the pointer, or chosen by the keyboard, is
// told in words.
import { element, replaceContent } from "./dom.js";
import * as format from "./format.js";

const SHOWN = [["rate", "Available bandwidth"], ["delay", "Round-trip delay"], ["loss", "Loss"]];
/** With more hosts, a cell has room for a colour and a sign alone. */
const MAX_HOSTS_WITH_TEXT = 12;
const MIN_CELL_PIXELS = 11, MAX_CELL_PIXELS = 30;
const NAME_PIXELS = 110;
/** Upper ends of the classes of loss: those of the heat map. */
const LOSS_STEPS = [0, 0.01, 0.05, 0.2];
const CLASSES = 5;
/** Steps of rates and delays: 1, 2, 5, 10, … of the units. */
const LADDER = Array.from({ length: 19 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** (power - 7))).flat();
const SIGNS = { bad: "■", warn: "▲" };
/** The worst first. */
const LEVELS = ["bad", "warn", "none", "good"];
const NOTHING = "nothing";

export function matrixInAddress() {
  const name = new URLSearchParams(location.search).get("show");
  return SHOWN.some(([known]) => known === name) ? name : "rate";
}

/** The one that is shown; another status changes its cells, and leaves the rest as it is. */
let grid = null;
/** Ids of the ends of the cell that was chosen last, which the keyboard comes back to. */
let chosen = null;

/** Shows the matrix, or brings it up to date. `worst`: rows of a table of paths that are not well. */
export function matrixView({ status, show, heading, below }) {
  const shown = matrixInAddress();
  const key = JSON.stringify([shown, status.agents.map((agent) => [agent.id, agent.name])]);
  if (grid?.key !== key || !grid.table.isConnected) {
    grid = makeGrid(status.agents, shown, key);
    show("Matrix", element("h1", {}, heading), grid.summary, shownLinks(shown), grid.legend, grid.says, grid.place, grid.below);
    grid.size();
  }
  grid.update(status);
  replaceContent(grid.below, below.flat());
  const observer = new ResizeObserver(() => grid?.size());
  observer.observe(grid.place);
  return () => observer.disconnect();
}

/** The keyboard goes on where it was. */
export const focusMatrix = () => grid?.table.isConnected && grid.focusChosen();

function shownLinks(shown) {
  const link = ([name, title]) => element("a", { href: `${location.pathname}?show=${name}`, "aria-current": name === shown ? "true" : undefined }, title);
  return element("nav", { class: "ranges", "aria-label": "What is shown" }, SHOWN.map(link));
}

/** What there is of each direction, by the ids of its ends: over two versions of IP, that of the path that is worse. */
function directions(status) {
  const known = new Map();
  const add = (from, to, direction) => {
    const other = known.get(`${from}:${to}`);
    const worst = (one) => LEVELS.indexOf(one.pair?.state.level);
    if (!other || (direction.pair && worst(direction) < worst(other))) known.set(`${from}:${to}`, direction);
  };
  for (const pair of status.pairs) {
    if (!pair.ends) continue;
    const [source, target] = pair.ends;
    add(source, target, { pair, lane: "up" });
    add(target, source, { pair, lane: "down" });
  }
  for (const { pair, reason } of status.unmeasured ?? []) {
    const [one, other] = pair.split(" ")[0].split(":");
    add(one, other, { reason });
    add(other, one, { reason });
  }
  return known;
}

const lossOf = ({ pair, lane }) => pair[`loss_${lane}`] ?? pair.loss;
const roundTrip = ({ pair }) => pair.delays.find((delay) => delay.lane === "round_trip");

/** The number that is shown; null where there is none. */
function valueOf(direction, shown) {
  if (!direction?.pair) return null;
  if (shown === "loss") return lossOf(direction)?.ratio ?? null;
  if (shown === "delay") return roundTrip(direction)?.median_seconds ?? null;
  return direction.pair.run?.[direction.lane]?.value ?? null;
}

/** Four steps of the ladder, at most, that are between the values. */
function stepsBetween(values) {
  const [low, high] = values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, 0]);
  const steps = LADDER.filter((step) => step > low && step <= high);
  const most = CLASSES - 1;
  return steps.length <= most ? steps : Array.from({ length: most }, (_, place) => steps[Math.floor(((place + 0.5) * steps.length) / most)]);
}

const SHORT = { rate: format.rate, delay: format.span, loss: format.ratio };

/** Of a value: 0 for the best. Few bits per second are bad, many seconds are. */
function classOf(value, shown, steps) {
  if (shown === "loss") return steps.filter((step) => value > step).length;
  const above = steps.filter((step) => value >= step).length;
  return shown === "rate" ? steps.length - above : above;
}

/** How a cell looks: its class, its text, what is below the text, a sign. `isAway`: an agent at an end is not connected. */
function look(direction, shown, steps, now, isAway) {
  if (!direction) return ["unreachable", "", ""];
  if (!direction.pair) return ["unreachable", "×", "not possible"];
  const { pair, lane } = direction;
  const value = valueOf(direction, shown);
  const sign = SIGNS[pair.state.level] ?? "";
  const age = shown === "rate" && pair.run ? `${format.age(now - pair.run.start_seconds)} ago` : "";
  // What was measured before says nothing of a path that is down.
  if (pair.state.level === "bad") return [NOTHING, pair.state.word, `for ${format.age(now - pair.state.since_seconds)}`, sign];
  if (value !== null) return [`${shown === "loss" ? "heat" : "amount"}-${classOf(value, shown, steps)}`, SHORT[shown](value), age, sign];
  if (shown === "rate" && pair.run) return ["unknown", pair.run[lane] ? "not known" : "failed", age, sign];
  return ["absent", shown === "rate" && pair.state.level !== "none" ? (pair.is_measured ? "none yet" : "not measured") : pair.state.word, isAway ? "not connected" : "", sign];
}

/** All that is known of a direction, in words. */
function describe(names, direction, now) {
  // Over which version of IP, where there are two.
  const version = direction?.pair?.id.split(" ")[1] ?? "";
  const title = `${names[0]} → ${names[1]} ${version}`.trim();
  if (!direction) return `${title}: not monitored`;
  if (!direction.pair) return `${title}: cannot be measured: ${direction.reason}`;
  const { pair, lane } = direction;
  const figure = pair.run?.[lane];
  const parts = [`${pair.state.word} since ${format.time(pair.state.since_seconds)}`];
  if (pair.state.level !== "good") parts.push(pair.state.detail.replace(/\.$/, ""));
  if (figure?.value !== undefined) parts.push(`${format.rateEstimate(figure)[0]} available (${format.rateEstimate(figure)[1]}), measured ${format.age(now - pair.run.start_seconds)} ago`);
  else if (pair.run) parts.push(`available bandwidth not known: ${figure?.reason ?? pair.run.error ?? "the measurement failed"}`);
  else parts.push(pair.is_measured ? "not measured yet" : "available bandwidth is not measured");
  const delay = roundTrip(direction);
  if (delay) parts.push(`round trip ${format.span(delay.median_seconds)} (95 % ≤ ${format.span(delay.quantile_95_seconds)})`);
  const loss = lossOf(direction);
  if (loss) parts.push(`${format.ratio(loss.ratio)} lost (${format.ratio(loss.low)} to ${format.ratio(loss.high)})`);
  return `${title}: ${parts.join("; ")}`;
}

function legend(shown, steps) {
  const prefix = shown === "loss" ? "heat" : "amount";
  const ends = steps.map((step) => SHORT[shown](step));
  const texts = shown === "loss"
    ? ["no loss", ...ends.slice(1).map((end) => `to ${end}`), "more"]
    : [...ends.map((end) => `below ${end}`), ends.length > 0 ? `${ends.at(-1)} and more` : "all much the same"];
  const order = shown === "rate" ? texts.reverse() : texts;
  const key = (name, text) => element("span", {}, element("span", { class: `key ${name}` }), text);
  const when = shown === "rate" ? "The last measurement. " : "The last 15 minutes. ";
  return [when, ...order.map((text, place) => key(`${prefix}-${place}`, text)),
    ...(shown === "rate" ? [key("unknown", "measured without a value")] : []), key("absent", "no data"), key("unreachable", "cannot be measured"),
    element("span", {}, element("span", { class: "state bad" }), "down"), element("span", {}, element("span", { class: "state warn" }), "impaired")];
}

function makeGrid(agents, shown, key) {
  const isDense = agents.length > MAX_HOSTS_WITH_TEXT;
  const [summary, says] = [element("p", { class: "matrix-summary" }), element("p", { class: "heat-says" }, "Point at a cell, or move with the arrow keys; Enter opens the path.")];
  const place = element("div", { class: "scroll matrix-place" });
  const keys = element("p", { class: "faint heat-legend" });
  const heads = agents.map(({ name }) => element("th", { scope: "col", role: "columnheader" }, element("span", {}, name)));
  const rows = agents.map((from) => {
    const cells = agents.map((to) => makeCell(from, to, isDense));
    const head = element("th", { scope: "row", role: "rowheader" }, from.name);
    return { head, cells, line: element("tr", { role: "row" }, head, cells.map((cell) => cell.box)) };
  });
  const table = element("table", { class: `matrix ${isDense ? "dense" : "worded"}`, role: "grid", "aria-label": "From each host (rows) to each other (columns)" },
    element("thead", {}, element("tr", { role: "row" }, element("th", { class: "corner", scope: "col" }, "from ↓ to →"), heads)),
    element("tbody", {}, rows.map((row) => row.line)));
  place.append(table);
  let latest = { known: new Map(), now: 0 };
  const cellAt = (row, column) => rows[row]?.cells[column];
  const words = (row, column) => (row === column ? agents[row].name : describe([agents[row].name, agents[column].name], latest.known.get(`${agents[row].id}:${agents[column].id}`), latest.now));
  const placeOf = (target) => {
    const box = target.closest?.("td");
    return box ? [box.parentElement.rowIndex - 1, box.cellIndex - 1] : null;
  };
  const tabStop = () => {
    const at = chosen ? chosen.map((id) => agents.findIndex((agent) => agent.id === id)) : [];
    return at.length === 2 && at.every((place) => place >= 0) ? at : [0, Math.min(1, agents.length - 1)];
  };
  const choose = ([row, column]) => {
    const before = cellAt(...tabStop());
    if (before) before.link.tabIndex = -1;
    chosen = [agents[row].id, agents[column].id];
    const { link } = cellAt(row, column);
    link.tabIndex = 0;
    // Before it has the focus: then readers of the screen read it.
    link.setAttribute("aria-label", words(row, column));
    link.focus();
  };
  const first = cellAt(...tabStop());
  if (first) first.link.tabIndex = 0;
  table.addEventListener("keydown", (event) => {
    const at = placeOf(event.target);
    const next = at && nextPlace(event, at, agents.length);
    if (!next) return;
    event.preventDefault();
    choose(next);
  });
  const tell = ({ target }) => {
    const at = placeOf(target);
    if (at) says.textContent = words(...at);
  };
  table.addEventListener("focusin", (event) => {
    const at = placeOf(event.target);
    if (!at) return;
    chosen = at.map((place) => agents[place].id);
    event.target.setAttribute("aria-label", words(...at));
    tell(event);
  });
  table.addEventListener("pointerover", tell);
  const update = (status) => {
    const known = directions(status), now = status.time_seconds;
    latest = { known, now };
    const all = agents.flatMap((from) => agents.map((to) => valueOf(known.get(`${from.id}:${to.id}`), shown))).filter((value) => value !== null);
    const steps = shown === "loss" ? LOSS_STEPS : stepsBetween(all);
    keys.replaceChildren(...legend(shown, steps));
    summary.replaceChildren(...summaryOf(status));
    rows.forEach((row, from) => {
      const agent = status.agents[from];
      row.head.classList.toggle("away", !agent.is_connected);
      row.head.title = agent.is_connected ? "" : "not connected";
      row.cells.forEach((cell, to) => {
        if (from === to) return;
        const direction = known.get(`${agents[from].id}:${agents[to].id}`);
        const isAway = [from, to].some((end) => !status.agents[end].is_connected);
        cell.set(look(direction, shown, steps, now, isAway), direction?.pair?.id);
      });
    });
  };
  const size = () => {
    const room = (place.clientWidth - NAME_PIXELS - 20) / agents.length;
    table.style.setProperty("--cell", `${Math.floor(Math.min(Math.max(room, MIN_CELL_PIXELS), MAX_CELL_PIXELS))}px`);
  };
  return { key, table, place, says, summary, legend: keys, below: element("div"), update, size, focusChosen: () => choose(tabStop()) };
}

/** One cell. It is touched only where what it shows has changed. */
function makeCell(from, to, isDense) {
  const link = element("a", { tabindex: -1 });
  const box = element("td", { role: "gridcell", class: from === to ? "own" : "absent" }, link);
  let before = "";
  const set = ([name, text, small, sign = ""], id) => {
    const now = `${name}|${text}|${small}|${sign}|${id}`;
    if (now === before) return;
    before = now;
    box.className = `${name} ${sign ? "signed" : ""}`;
    if (id) link.setAttribute("href", `/pair/${encodeURIComponent(id)}`);
    else link.removeAttribute("href");
    if (isDense) link.textContent = sign || (name === "unreachable" ? text : "");
    else link.replaceChildren(...[sign ? element("span", { class: "sign" }, `${sign} `) : null, text, element("small", {}, small)].filter(Boolean));
  };
  return { box, link, set };
}

function nextPlace({ key, ctrlKey }, [row, column], count) {
  const last = count - 1;
  const moves = {
    ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    Home: [ctrlKey ? 0 : row, 0], End: [ctrlKey ? last : row, last], PageUp: [row - 10, column], PageDown: [row + 10, column],
  };
  return moves[key]?.map((place) => Math.min(Math.max(place, 0), last));
}

/** How many are well, and who is not there. */
function summaryOf(status) {
  const count = (level) => status.pairs.filter((pair) => pair.state.level === level).length;
  const words = [["bad", "down"], ["warn", "impaired"], ["none", "without data"], ["good", "up"]]
    .map(([level, word]) => [level, count(level), word]).filter(([, number]) => number > 0)
    .flatMap(([level, number, word]) => [element("span", { class: `state ${level}` }, `${number} ${word}`), " "]);
  const away = status.agents.filter((agent) => !agent.is_connected);
  const since = (agent) => (agent.since_seconds === null ? "" : ` since ${format.time(agent.since_seconds)}`);
  const named = away.slice(0, 5).map((agent) => `${agent.name}${since(agent)}`).join(", ");
  const rest = away.length > 5 ? ` and ${away.length - 5} more` : "";
  const agents = away.length === 0 ? `All ${status.agents.length} agents are connected.` : `Not connected: ${named}${rest}.`;
  return [`${status.pairs.length} paths: `, ...words, agents];
}
