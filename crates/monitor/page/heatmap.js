// All paths over the same time: a row for each, a cell for each stretch of time, by colour. What is under the pointer, or chosen by the
// keyboard, is told in words.
import { element } from "./dom.js";
import * as format from "./format.js";

const SHOWN = [["loss", "Loss"], ["up", "Available, up"], ["down", "Available, down"]];
/** Rows are asked for in parts, so that each answer comes soon. */
const ROWS_PER_QUESTION = 20;
const MAX_CELLS = 200;
const MIN_CELL_PIXELS = 5;
/** As in the style sheet, where rows have it before their data come. */
const ROW_PIXELS = 18;
/** What is told of each class of a cell; colours are in the style sheet, the lower the better. */
const LOSS_CLASSES = [[0, "no loss"], [0.01, "to 1 %"], [0.05, "to 5 %"], [0.2, "to 20 %"], [0.999999, "more"]];
const RATE_CLASSES = [[0.9, "90 % of the usual and more"], [0.7, "to 70 %"], [0.5, "to 50 %"], [0.25, "to 25 %"], [0, "less"]];
const NOTHING_ARRIVED = 5;
const UNKNOWN = "unknown", DISTURBED = "disturbed";

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function shownInAddress() {
  const name = new URLSearchParams(location.search).get("show");
  return SHOWN.some(([known]) => known === name) ? name : "loss";
}

/** `pairs`: in the order of the rows. `all`: ids in the monitor's order, by which it is asked. */
export async function heatmapView({ pairs, all, range, rangeLinks, addressOf, fetchJson, show, isCurrent }) {
  const shown = shownInAddress();
  const says = element("p", { class: "heat-says" }, "Point at a cell, or move with the arrow keys.");
  const rows = new Map(pairs.map((pair) => [pair.id, heatRow(pair, { shown, range, says, addressOf })]));
  const body = element("tbody", {}, [...rows.values()].map((row) => row.line));
  // One stop for the tab key; from there, the arrow keys move.
  [...rows.values()][0]?.setTabStop(true);
  body.addEventListener("keydown", (event) => moveBetweenRows(event, pairs.map((pair) => rows.get(pair.id))));
  const shownLinks = SHOWN.map(([name, title]) => element("a", { href: withShown(name), "aria-current": name === shown ? "true" : undefined }, title));
  const scale = element("td", { class: "heat-scale" }, element("span", {}, format.time(range.from)), element("span", {}, format.time(range.to)));
  const loading = element("p", { class: "faint" }, "Loading …");
  show("Heat map",
    element("h1", {}, "All paths over time"), element("nav", { class: "ranges", "aria-label": "What is shown" }, shownLinks), rangeLinks, legend(shown), says,
    element("table", { class: "heat" }, body, element("tfoot", {}, element("tr", {}, element("td", {}), scale))), loading);
  const width = [...rows.values()][0]?.width() ?? 0;
  const points = Math.min(MAX_CELLS, Math.max(20, Math.floor(width / MIN_CELL_PIXELS)));
  for (let first = 0; first < all.length; first += ROWS_PER_QUESTION) {
    const answer = await fetchJson(`/api/v1/heatmap?from=${range.from}&to=${range.to}&points=${points}&show=${shown}&first=${first}&rows=${ROWS_PER_QUESTION}`);
    if (!isCurrent()) return () => {};
    loading.textContent = `${format.age(answer.resolution_seconds)} each; ${format.zone()}.`;
    for (const row of answer.rows) rows.get(row.pair)?.fill(row, answer);
  }
  if (all.length === 0) loading.textContent = "There are no paths.";
  const observer = new ResizeObserver(() => rows.forEach((row) => row.draw()));
  observer.observe(body);
  return () => observer.disconnect();
}

function withShown(name) {
  const query = new URLSearchParams(location.search);
  query.set("show", name);
  return `${location.pathname}?${query}`;
}

function legend(shown) {
  const classes = shown === "loss" ? LOSS_CLASSES : RATE_CLASSES;
  const key = (name, text) => [element("span", { class: `key ${name}` }), text];
  const first = shown === "loss" ? [] : ["Compared with the path's usual value in this range: "];
  const rest = shown === "loss"
    ? [key("heat-nothing", "nothing arrived"), key("disturbed", "only beside a measurement")]
    : [key("heat-unknown", "measured without a value")];
  const keys = [...classes.map(([, text], place) => key(`heat-${place}`, text)), ...rest, key("gap", "no data")];
  return element("p", { class: "faint heat-legend" }, first, keys.map((parts) => element("span", {}, parts)));
}

/** The class of a cell: a number, the greater the worse, or what else there is to tell. */
function cellClass(cell, shown, usual) {
  if (shown === "loss") {
    if (cell.sent === 0) return cell.disturbed > 0 ? DISTURBED : null;
    const loss = cell.lost / cell.sent;
    return loss >= 1 ? NOTHING_ARRIVED : LOSS_CLASSES.findIndex(([most]) => loss <= most);
  }
  if (cell.value === null) return UNKNOWN;
  return RATE_CLASSES.findIndex(([least]) => cell.value >= least * usual);
}

function describe(cell, shown, usual) {
  if (shown === "loss") {
    const beside = cell.disturbed > 0 ? `; ${cell.disturbed} more beside measurements` : "";
    return cell.sent === 0 ? `no probe but ${cell.disturbed} beside measurements` : `${format.ratio(cell.lost / cell.sent)} of ${cell.sent} probes lost${beside}`;
  }
  const without = cell.unknown > 0 ? `; ${cell.unknown} without a value` : "";
  if (cell.value === null) return `measured ${cell.unknown} times without a value`;
  const [value, interval] = format.rateEstimate(cell);
  return `${value} (${interval}), ${Math.round((100 * cell.value) / usual)} % of the usual${without}`;
}

function heatRow(pair, { shown, range, says, addressOf }) {
  const canvas = element("canvas", { tabindex: -1, role: "slider", "aria-label": pair.name, "aria-valuemin": 0, "aria-valuetext": "loading" });
  const line = element("tr", {}, element("th", { scope: "row" }, element("a", { href: `/pair/${encodeURIComponent(pair.id)}${location.search}` }, pair.name)), element("td", {}, canvas));
  let cells = [], gaps = [], resolution = 0, start = 0, usual = 0, chosen = null, isFilled = false;
  const width = () => canvas.parentElement?.clientWidth ?? 0;
  const place = (seconds) => ((seconds - range.from) / (range.to - range.from)) * width();
  const spanOf = (number) => [start + number * resolution, start + (number + 1) * resolution];
  const count = () => Math.ceil((range.to - start) / resolution);
  const cellAt = (number) => {
    const middle = start + (number + 0.5) * resolution;
    return cells.find((cell) => cell.from_seconds <= middle && middle < cell.from_seconds + cell.length_seconds);
  };
  const draw = () => {
    const scale = devicePixelRatio;
    canvas.width = Math.max(width() * scale, 1);
    canvas.height = ROW_PIXELS * scale;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    if (!isFilled) return;
    hatch(context, 0, width());
    for (const cell of cells) {
      const left = Math.max(place(cell.from_seconds), 0), right = Math.min(place(cell.from_seconds + cell.length_seconds), width());
      drawCell(context, cellClass(cell, shown, usual), left, right);
    }
    if (chosen !== null && document.activeElement === canvas) {
      const [from, to] = spanOf(chosen).map(place);
      context.strokeStyle = style("--text");
      context.lineWidth = 2;
      context.strokeRect(Math.max(from, 1), 1, Math.max(to - from - 1, 3), ROW_PIXELS - 2);
    }
  };
  const wordsOf = (number) => {
    const [from, to] = spanOf(number);
    const cell = cellAt(number);
    const gap = gaps.find((one) => one.from_seconds < to && one.to_seconds > from);
    const since = cell && shown !== "loss" ? cell.from_seconds : from;
    const what = cell ? describe(cell, shown, usual) : gap && shown === "loss" ? `no data: ${gap.cause}` : "no data";
    return `${format.time(since)}: ${what}`;
  };
  const tell = (number) => { says.textContent = `${pair.name}, ${wordsOf(number)}`; };
  const choose = (number) => {
    chosen = Math.min(Math.max(number, 0), count() - 1);
    tell(chosen);
    canvas.setAttribute("aria-valuenow", chosen);
    canvas.setAttribute("aria-valuetext", wordsOf(chosen));
    draw();
  };
  const open = (number) => {
    const [from, to] = spanOf(number);
    const margin = 2 * (to - from);
    return `/pair/${encodeURIComponent(pair.id)}?from=${addressOf(from - margin)}&to=${addressOf(to + margin)}`;
  };
  const numberAt = (event) => Math.floor((range.from + (event.offsetX / width()) * (range.to - range.from) - start) / resolution);
  const go = (number) => canvas.dispatchEvent(new CustomEvent("open", { bubbles: true, detail: open(number) }));
  canvas.addEventListener("pointermove", (event) => { if (isFilled) tell(numberAt(event)); });
  canvas.addEventListener("click", (event) => { if (isFilled) go(numberAt(event)); });
  canvas.addEventListener("focus", () => { if (isFilled) choose(chosen ?? count() - 1); });
  canvas.addEventListener("blur", draw);
  canvas.addEventListener("keydown", (event) => {
    if (!isFilled) return;
    const to = { ArrowLeft: chosen - 1, ArrowRight: chosen + 1, Home: 0, End: count() - 1 }[event.key];
    if (to !== undefined) choose(to);
    else if (event.key === "Enter") go(chosen);
    else return;
    event.preventDefault();
  });
  return {
    line, draw, width,
    focus: (number) => { chosen = number; canvas.focus(); },
    setTabStop: (is) => { canvas.tabIndex = is ? 0 : -1; },
    has: (target) => target === canvas,
    chosen: () => chosen,
    fill: (row, answer) => {
      ({ cells, gaps } = row);
      if (shown !== "loss") joinMeasurements(cells, range.to);
      [start, resolution, isFilled] = [answer.from_seconds, answer.resolution_seconds, true];
      usual = median(cells.map((cell) => cell.value).filter((value) => typeof value === "number"));
      canvas.setAttribute("aria-valuemax", count() - 1);
      canvas.setAttribute("aria-valuetext", summary(cells, shown, usual));
      draw();
    },
  };
}

/** A value stands until the next one, but not for much longer than they usually are apart. */
function joinMeasurements(cells, end) {
  const apart = median(cells.slice(1).map((cell, place) => cell.from_seconds - cells[place].from_seconds));
  cells.forEach((cell, place) => {
    const next = cells[place + 1]?.from_seconds ?? end;
    cell.length_seconds = Math.max(cell.length_seconds, Math.min(next - cell.from_seconds, 2 * apart));
  });
}

/** The whole row in words, for those who do not see it. */
function summary(cells, shown, usual) {
  if (cells.length === 0) return "no data";
  const classes = cells.map((cell) => cellClass(cell, shown, usual)).filter((found) => typeof found === "number");
  const bad = classes.filter((found) => found >= 2).length;
  return `${bad} of ${classes.length} cells ${shown === "loss" ? "with more than 1 % loss" : "below 70 % of the usual"}`;
}

function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)] ?? 0;
}

function moveBetweenRows(event, rows) {
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  const from = rows.findIndex((row) => row.has(event.target));
  if (!step || from < 0) return;
  event.preventDefault();
  const to = rows[from + step];
  if (!to) return;
  rows[from].setTabStop(false);
  to.setTabStop(true);
  to.focus(rows[from].chosen());
}

function drawCell(context, found, left, right) {
  if (found === null || right <= left) return;
  const width = Math.max(right - left - (right - left > 4 ? 1 : 0), 1);
  context.fillStyle = style("--ground");
  context.fillRect(left, 0, right - left, ROW_PIXELS);
  const ground = typeof found === "number" ? `--heat-${found}` : "--ground";
  context.fillStyle = style(ground);
  context.fillRect(left, 0, width, ROW_PIXELS);
  context.strokeStyle = style(found === NOTHING_ARRIVED ? "--ground" : "--faint");
  context.lineWidth = 1.2;
  context.beginPath();
  const middle = left + width / 2, reach = Math.min(width / 2 - 0.5, 4);
  if (found === NOTHING_ARRIVED || found === UNKNOWN) {
    // A cross, whatever colours the eye can tell apart.
    context.moveTo(middle - reach, ROW_PIXELS / 2 - 4); context.lineTo(middle + reach, ROW_PIXELS / 2 + 4);
    context.moveTo(middle - reach, ROW_PIXELS / 2 + 4); context.lineTo(middle + reach, ROW_PIXELS / 2 - 4);
  }
  context.stroke();
  if (found === DISTURBED) {
    context.fillStyle = `rgba(${style("--shade")}, 0.25)`;
    context.fillRect(left, 0, width, ROW_PIXELS);
  }
}

function hatch(context, left, right) {
  context.save();
  context.strokeStyle = `rgba(${style("--shade")}, 0.7)`;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = left - ROW_PIXELS; x < right; x += 6) { context.moveTo(x, ROW_PIXELS); context.lineTo(x + ROW_PIXELS, 0); }
  context.stroke();
  context.restore();
}
