// The page: what stands in the address is shown, so that a link shows what its sender saw.
import { element, replaceContent, table } from "./dom.js";
import * as format from "./format.js";
import { heatmapView } from "./heatmap.js";
import { focusMatrix, matrixView } from "./matrix.js";
import { follow, merge } from "./news.js";
import { bandwidthPlot, delayPlot, laneOf, lossPlot } from "./plots.js";
import { runFacts } from "./run.js";

const main = document.getElementById("main");
const RANGES = [["1h", 3600], ["6h", 21600], ["24h", 86400], ["7d", 604800], ["30d", 2592000], ["1y", 31536000]];
const MAX_POINTS = 800;
const LANES = ["round_trip", "up", "down"];
let status = null;
/** Ends what the present view has begun. */
let endings = [];
/** Counts views: an answer that comes after its view has gone is dropped. */
let view = 0;

async function fetchJson(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  // The session has ended: the page asks for a token at the same address.
  if (answer.status === 401) location.reload();
  if (!answer.ok) throw Object.assign(new Error((await answer.text()) || `${answer.status} ${answer.statusText}`), { status: answer.status });
  return answer.json();
}

function show(title, ...content) {
  document.title = `${title} – kumade monitor`;
  main.replaceChildren(...content.flat(2).filter((one) => one !== null));
}

const isMesh = () => (status.agents ?? []).length > 0;
const agentName = (id) => status.agents.find((agent) => agent.id === id)?.name ?? id;
/** What the two directions of a path are called. */
function directionNames(pair) {
  if (!pair.ends) return { up: "to the target", down: "from the target" };
  const [source, target] = pair.ends.map(agentName);
  return { up: `${source} → ${target}`, down: `${target} → ${source}` };
}

// Paths

const stateWord = (state) => element("span", { class: `state ${state.level}` }, state.word);

function estimateCell(estimate) {
  if (!estimate) return element("td", { class: "number faint" }, "–");
  if (estimate.value === undefined) return element("td", { class: "faint" }, "not known", element("small", {}, estimate.reason));
  const [value, interval] = format.rateEstimate(estimate);
  return element("td", { class: "number" }, value, element("small", {}, interval));
}

/** In which direction probes were lost, where any was and the host tells. */
function lossDirections(pair) {
  if (!pair.loss_up || !(pair.loss?.ratio > 0)) return "";
  return element("small", {}, `${format.ratio(pair.loss_up.ratio)} up, ${format.ratio(pair.loss_down?.ratio ?? 0)} down`);
}

function pairRow(pair) {
  const [delay] = pair.delays;
  const loss = pair.loss;
  return element("tr", {},
    element("td", {}, element("a", { href: `/pair/${encodeURIComponent(pair.id)}` }, pair.name), element("small", {}, pair.address ?? pair.host)),
    element("td", {}, stateWord(pair.state), element("small", {}, `for ${format.age(status.time_seconds - pair.state.since_seconds)}`)),
    delay ? element("td", { class: "number" }, format.span(delay.median_seconds), element("small", {}, `95 % ≤ ${format.span(delay.quantile_95_seconds)}`)) : element("td", { class: "faint" }, "–"),
    loss ? element("td", { class: "number" }, format.ratio(loss.ratio), element("small", {}, `${format.ratio(loss.low)} to ${format.ratio(loss.high)}`), lossDirections(pair)) : element("td", { class: "faint" }, "–"),
    estimateCell(pair.run?.up), estimateCell(pair.run?.down),
    element("td", { class: "number faint" }, pair.run ? `${format.age(status.time_seconds - pair.run.start_seconds)} ago` : pair.is_measured ? "none yet" : "not measured"));
}

const ORDER = { bad: 0, warn: 1, none: 2, good: 3 };

/** With more, there is a box to filter by, and those of one state are in the order of what they lose for sure. */
const MANY_PATHS = 40;
/** A page with more takes long to draw. */
const MAX_SHOWN_PATHS = 200;

/** The worst first; sorting is stable: those that are as bad stay in the file's order. */
function worstFirst() {
  const loss = (pair) => (status.pairs.length > MANY_PATHS ? (pair.loss?.low ?? 0) : 0);
  return [...status.pairs].sort((one, other) => ORDER[one.state.level] - ORDER[other.state.level] || loss(other) - loss(one));
}

const filterInAddress = () => new URLSearchParams(location.search).get("filter") ?? "";

function filterBox() {
  const input = element("input", { type: "search", id: "filter", value: filterInAddress(), autocomplete: "off", spellcheck: "false" });
  input.addEventListener("input", () => {
    history.replaceState(null, "", input.value ? `/paths?filter=${encodeURIComponent(input.value)}` : "/paths");
    pathsView();
  });
  return element("div", { class: "filter" }, element("label", { for: "filter" }, "Show paths with"), input);
}

function pathsView() {
  const counts = ["bad", "warn", "none", "good"].map((level) => status.pairs.filter((pair) => pair.state.level === level).length);
  const words = [`${counts[0]} down`, `${counts[1]} impaired`, `${counts[2]} without data`, `${counts[3]} up`].filter((_, place) => counts[place] > 0);
  const searched = filterInAddress().toLowerCase().split(/\s+/);
  const text = (pair) => [pair.name, pair.id, pair.host, pair.address ?? "", pair.state.word].join(" ").toLowerCase();
  const pairs = worstFirst().filter((pair) => searched.every((word) => text(pair).includes(word)));
  const found = pairs.length < status.pairs.length ? ` ${pairs.length} are shown.` : "";
  const list = [
    element("p", {}, `${status.pairs.length} paths: ${words.join(", ")}. Delay and loss are those of the last 15 minutes.${found}`),
    table([isMesh() ? "Path" : "Path to", "State", "Delay, median", "Loss", "Available, up", "Available, down", "Measured"], pairs.slice(0, MAX_SHOWN_PATHS).map(pairRow), "Paths"),
    pairs.length > MAX_SHOWN_PATHS ? element("p", { class: "faint" }, `${pairs.length - MAX_SHOWN_PATHS} more are not shown: filter the list.`) : null,
  ].filter(Boolean);
  // Who types in the box goes on to, whatever comes meanwhile.
  const shown = document.getElementById("paths");
  if (shown) return replaceContent(shown, list);
  const filter = status.pairs.length > MANY_PATHS || filterInAddress() ? [filterBox()] : [];
  show("Paths", element("h1", {}, isMesh() ? "Paths between the agents" : `Paths from ${status.name}`), filter, element("div", { id: "paths" }, list));
}

// A mesh

/** Listed below the matrix. */
const MAX_UNWELL = 20;

function meshView() {
  const unwell = worstFirst().filter((pair) => pair.state.level !== "good");
  const row = (pair) => element("tr", {}, element("td", {}, element("a", { href: `/pair/${encodeURIComponent(pair.id)}` }, pair.name)),
    element("td", {}, stateWord(pair.state)), element("td", { class: "time" }, format.time(pair.state.since_seconds)), element("td", {}, pair.state.detail));
  const rest = unwell.length - MAX_UNWELL;
  const below = unwell.length === 0 ? [] : [element("h2", {}, "Paths that are not well"),
    table(["Path", "State", "Since", "What is seen"], unwell.slice(0, MAX_UNWELL).map(row), "Paths that are not well"),
    rest > 0 ? element("p", {}, element("a", { href: "/paths" }, `${rest} more`)) : null];
  endings.push(matrixView({ status, show, heading: `Paths between ${status.agents.length} hosts`, below }));
}

// One pair

function rangeInAddress() {
  const query = new URLSearchParams(location.search);
  const now = Date.now() / 1000;
  if (query.has("from") && query.has("to")) {
    const [from, to] = [query.get("from"), query.get("to")].map((text) => Date.parse(text) / 1000);
    if (Number.isFinite(from) && Number.isFinite(to) && from < to) return { from, to, name: null };
  }
  const name = query.get("last") ?? "24h";
  const [, length] = RANGES.find(([known]) => known === name) ?? RANGES[2];
  return { from: now - length, to: now, name: RANGES.some(([known]) => known === name) ? name : "24h" };
}

const addressOf = (seconds) => new Date(Math.round(seconds) * 1000).toISOString().replace(".000Z", "Z");

function rangeLinks(range) {
  const path = location.pathname;
  const shown = new URLSearchParams(location.search).get("show");
  const also = shown ? `&show=${encodeURIComponent(shown)}` : "";
  const links = RANGES.map(([name]) => element("a", { href: `${path}?last=${name}${also}`, "aria-current": range.name === name ? "true" : undefined }, name));
  const length = range.to - range.from;
  const step = (by) => `${path}?from=${addressOf(range.from + by)}&to=${addressOf(range.to + by)}${also}`;
  const fixed = element("a", { href: step(0), title: "An address that always shows these times" }, "link to this");
  return element("nav", { class: "ranges", "aria-label": "Range of time" }, links,
    element("a", { href: step(-length), "aria-label": "earlier" }, "◀"), element("a", { href: step(length), "aria-label": "later" }, "▶"), fixed);
}

/** What is known of it now, in words. */
function pairFacts(pair) {
  const { up, down } = directionNames(pair);
  const figure = (estimate) => (estimate?.value !== undefined ? format.rateEstimate(estimate).join(" (") + ")" : `not known: ${estimate?.reason ?? pair.run.error ?? "the measurement failed"}`);
  const available = pair.run ? [[`Available, ${up}`, figure(pair.run.up)], [`Available, ${down}`, figure(pair.run.down)], ["Measured", `${format.age(status.time_seconds - pair.run.start_seconds)} ago`]] : [];
  const delay = pair.delays.find((one) => one.lane === "round_trip");
  const facts = [...available,
    ["Round trip", delay && `${format.span(delay.median_seconds)}, 95 % within ${format.span(delay.quantile_95_seconds)}, in the last 15 minutes`],
    ["Loss", pair.loss && `${format.ratio(pair.loss.ratio)} (${format.ratio(pair.loss.low)} to ${format.ratio(pair.loss.high)}) of ${pair.loss.sent} probes in the last 15 minutes`]];
  return element("dl", { class: "facts" }, facts.filter(([, text]) => text).flatMap(([title, text]) => [element("dt", {}, title), element("dd", {}, text)]));
}

function pairHead(pair) {
  const { up, down } = directionNames(pair);
  return [element("h1", {}, pair.ends ? pair.name : `${status.name} → ${pair.name}`),
    element("p", {}, stateWord(pair.state), ` since ${format.time(pair.state.since_seconds)}. ${pair.state.detail}`),
    pairFacts(pair),
    pair.ends ? element("p", { class: "faint" }, `“Up” is ${up}, “down” is ${down}.`) : null,
    pair.is_measured ? measureForm(pair) : null].filter(Boolean);
}

/** Seen by those who may ask for measurements. What was said of the last one stays when the view is drawn again. */
const said = new Map();
function measureForm(pair) {
  const answer = element("span", { role: "status" }, said.get(pair.id) ?? "");
  const button = element("button", { type: "button" }, "Measure now");
  button.addEventListener("click", async () => {
    button.disabled = true;
    const response = await fetch(`/api/v1/pairs/${encodeURIComponent(pair.id)}/measure`, { method: "POST" }).catch((error) => ({ text: () => String(error.message) }));
    said.set(pair.id, `${new Date().toLocaleTimeString()}: ${(await response.text()).trim()}`);
    answer.textContent = said.get(pair.id);
    button.disabled = false;
  });
  return element("p", { class: "write-only" }, button, " ", answer);
}

/** Whether the archive does not have what has just been seen: it follows within seconds. */
function isBehind(pair, range, answers) {
  if (range.name === null) return false;
  const [series, runs] = answers ?? [{ buckets: [] }, { runs: [] }];
  const isMissing = pair.run?.start_seconds > range.from && runs.runs.every((run) => run.id !== pair.run.id);
  return isMissing || (pair.state.level !== "none" && series.buckets.length === 0);
}

async function pairView(id) {
  const mine = view;
  const pair = status.pairs.find((one) => one.id === id);
  if (!pair) return show("No such path", element("h1", {}, "No such path"), element("p", {}, `There is no path with the id “${id}”.`));
  const range = rangeInAddress();
  const query = `from=${range.from}&to=${range.to}`;
  const base = `/api/v1/pairs/${encodeURIComponent(id)}`;
  const points = Math.min(MAX_POINTS, Math.max(60, Math.floor(main.clientWidth / 2)));
  const questions = [fetchJson(`${base}/series?${query}&points=${points}`), fetchJson(`${base}/runs?${query}`), fetchJson(`/api/v1/events?${query}&pair=${encodeURIComponent(id)}`)];
  const answers = await Promise.all(questions).catch((error) => { if (error.status !== 404) throw error; });
  if (mine !== view) return;
  if (isBehind(pair, range, answers)) setTimeout(() => { if (mine === view) render(); }, REFRESH_MILLISECONDS);
  if (!answers) return show(pair.name, pairHead(pair), element("p", {}, "Nothing has been recorded of this path so far."));
  const [series, runs, { events }] = answers;
  const marks = { gaps: series.gaps.map((gap) => ({ from: gap.from_seconds, to: gap.to_seconds })), disturbed: runs.runs.map((run) => ({ from: run.start_seconds, to: run.start_seconds + run.duration_seconds })) };
  const place = () => element("div", { class: "plot" });
  const names = directionNames(pair);
  const lanes = LANES.filter((lane) => series.buckets.some((bucket) => laneOf(bucket, lane)));
  const delays = lanes.map((lane) => [lane, lane === "round_trip" ? "Round-trip delay" : `One-way delay ${names[lane]}`, place()]);
  const [loss, bandwidth] = [place(), place()];
  show(pair.name,
    pairHead(pair), rangeLinks(range),
    element("p", { class: "faint" }, `${format.time(range.from)} to ${format.time(range.to)} (${format.zone()}), by ${format.age(series.resolution_seconds)} each. `,
      element("span", { class: "key disturbed" }), "while a measurement ran ", element("span", { class: "key gap" }), "no data. Drag over a plot to enlarge a part."),
    delays.flatMap(([, title, where]) => [element("h2", {}, title), where]), element("h2", {}, "Loss"), loss, element("h2", {}, "Available bandwidth"), bandwidth,
    element("h2", {}, "Events"), eventTable(events.slice(0, 100)), element("h2", {}, "Gaps"), gapTable(series.gaps), element("h2", {}, "Measurements"), runTable(runs.runs));
  const empty = (where, text) => where.replaceChildren(element("p", { class: "empty faint" }, text));
  for (const [lane, title, where] of delays) endings.push(delayPlot(where, title, lane, series.buckets, range, marks));
  if (series.buckets.length > 0) endings.push(lossPlot(loss, series.buckets, range, marks));
  else empty(loss, "No probes in this range.");
  if (runs.runs.length > 0) endings.push(bandwidthPlot(bandwidth, runs.runs, range, marks));
  else empty(bandwidth, pair.is_measured ? "No measurements in this range." : "This path is not measured: its target has no `measure` in the configuration.");
}

function gapTable(gaps) {
  if (gaps.length === 0) return element("p", { class: "faint" }, "None.");
  const row = (gap) => element("tr", {}, element("td", { class: "time" }, format.time(gap.from_seconds)), element("td", {}, format.age(gap.to_seconds - gap.from_seconds)), element("td", {}, gap.cause));
  return table(["From", "For", "Cause"], gaps.slice(-100).reverse().map(row), "Gaps");
}

function runTable(runs) {
  if (runs.length === 0) return element("p", { class: "faint" }, "None.");
  const row = (run) => element("tr", {},
    element("td", { class: "time" }, element("a", { href: `/run/${run.id}` }, format.time(run.start_seconds))), element("td", { class: "number" }, format.span(run.duration_seconds)),
    estimateCell(run.up), estimateCell(run.down), element("td", {}, run.error ?? ""));
  return table(["Time", "Took", "Available, up", "Available, down", "Failure"], runs.slice(-100).reverse().map(row), "Measurements");
}

async function runView(id) {
  const mine = view;
  const run = await fetchJson(`/api/v1/runs/${encodeURIComponent(id)}`);
  if (mine !== view) return;
  const pair = status.pairs.find((one) => one.id === run.pair);
  const names = pair ? directionNames(pair) : { up: "up", down: "down" };
  const page = `/pair/${encodeURIComponent(run.pair)}`;
  const around = `${page}?from=${addressOf(run.start_seconds - 1800)}&to=${addressOf(run.start_seconds + 1800)}`;
  show("Measurement", element("h1", {}, `Measurement ${pair?.name ?? run.pair}, ${format.time(run.start_seconds)}`),
    element("p", {}, element("a", { href: page }, "the path"), ", ", element("a", { href: around }, "the hour around it")),
    runFacts(run, names),
    run.document ? element("details", {}, element("summary", {}, "Document"), element("pre", { tabindex: 0 }, JSON.stringify(run.document, null, 2))) : null);
}

async function heatView() {
  const mine = view;
  const range = rangeInAddress();
  const end = await heatmapView({
    pairs: worstFirst(), all: status.pairs.map((pair) => pair.id), range, rangeLinks: rangeLinks(range), addressOf, fetchJson, show, isCurrent: () => mine === view,
  });
  if (mine === view) endings.push(end);
  else end();
}

// Events and the schedule

/** No more are told of at a time. */
const MAX_EVENTS = 1000;

/** A path's event leads to the hour around it. */
function eventTable(events) {
  if (events.length === 0) return element("p", { class: "faint" }, "None in this range.");
  const around = (event) => `/pair/${encodeURIComponent(event.pair)}?from=${addressOf(event.time_seconds - 1800)}&to=${addressOf(event.time_seconds + 1800)}`;
  const row = (event) => element("tr", {}, element("td", { class: "time" }, format.time(event.time_seconds)),
    element("td", {}, event.pair ? element("a", { href: around(event) }, event.text) : event.text));
  return table(["Time", "What"], events.map(row), "Events");
}

async function eventsView() {
  const mine = view;
  const range = rangeInAddress();
  const { events } = await fetchJson(`/api/v1/events?from=${range.from}&to=${range.to}`);
  if (mine !== view) return;
  const more = events.length < MAX_EVENTS ? null : element("p", { class: "faint" }, `There are more: these are the latest ${MAX_EVENTS}.`);
  show("Events", element("h1", {}, "Events"), rangeLinks(range), element("p", { class: "faint" }, `${format.time(range.from)} to ${format.time(range.to)} (${format.zone()})`), eventTable(events), more);
}

async function scheduleView() {
  const mine = view;
  const { load_ratio: load, stretch_factor: stretch, runs, missed } = await fetchJson("/api/v1/schedule");
  if (mine !== view) return;
  const names = new Map(status.pairs.map((pair) => [pair.id, pair.name]));
  const name = (id) => (names.has(id) ? element("a", { href: `/pair/${encodeURIComponent(id)}` }, names.get(id)) : id);
  const row = (run) => element("tr", {}, element("td", {}, name(run.pair)),
    element("td", {}, run.is_running ? "now" : `in ${format.age(Math.max(run.due_in_seconds, 0))}`), element("td", { class: "number" }, format.span(run.slot_seconds)));
  const fits = stretch > 1 ? `They do not all fit: periods ${stretch.toFixed(1)} times as long would do.` : "All of them fit.";
  const agents = status.agents ?? [];
  const unmeasured = status.unmeasured ?? [];
  const whose = agents.length === 0 ? "this host's time" : "the time of the busiest host or link";
  const carried = (one) => element("td", { class: "number" }, format.size(one.used_bytes), one.bytes_per_day === null ? "" : element("small", {}, `of ${format.size(one.bytes_per_day)}`));
  const links = status.links ?? [];
  const linkRow = (link) => element("tr", {}, element("td", {}, link.name), carried(link));
  const agentRow = (agent) => element("tr", {}, element("td", {}, agent.name), element("td", {}, agent.is_connected ? "connected" : "not connected"),
    element("td", { class: "time" }, agent.since_seconds === null ? "" : format.time(agent.since_seconds)), element("td", {}, agent.address ?? ""),
    carried(agent),
    element("td", {}, agent.faults.join("; ")));
  show("Schedule", element("h1", {}, "Schedule"),
    element("p", {}, `Measurements run one at a time on a host. They take ${format.ratio(load)} of ${whose}. ${fits}`),
    runs.length === 0 ? element("p", { class: "faint" }, "Nothing is measured.") : table(["Path", "Next", "Time set aside"], runs.map(row), "Schedule"),
    unmeasured.length === 0 ? [] : [element("h2", {}, "Not measured"), table(["Path", "Why"], unmeasured.map((pair) => element("tr", {}, element("td", {}, pair.pair), element("td", {}, pair.reason))), "Not measured")],
    missed.length === 0 ? [] : [element("h2", {}, "Missed"), table(["Path", "Why"], missed.map((run) => element("tr", {}, element("td", {}, name(run.pair)), element("td", {}, run.reason))), "Missed")],
    agents.length === 0 ? [] : [element("h2", {}, "Agents"), table(["Agent", "Connection", "Since", "From", "Measured in 24 h", "Faults"], agents.map(agentRow), "Agents")],
    links.length === 0 ? [] : [element("h2", {}, "Links"), table(["Link", "Measured in 24 h"], links.map(linkRow), "Links")]);
}

async function auditView() {
  const mine = view;
  const { entries } = await fetchJson("/api/v1/audit");
  if (mine !== view) return;
  const row = (entry) => element("tr", {}, element("td", { class: "time" }, format.time(entry.time_seconds)), element("td", {}, entry.who), element("td", {}, entry.what));
  show("Audit", element("h1", {}, "Who has done what"), entries.length === 0 ? element("p", { class: "faint" }, "Nothing so far.") : table(["Time", "Who", "What"], entries.map(row), "Audit"));
}

// Alerts, above all views

/** What is shown, so that a screen reader hears only news. */
let shownAlerts = "";

function alertItem(alert) {
  const pair = alert.pairs.length === 1 ? status.pairs.find((one) => one.id === alert.pairs[0]) : undefined;
  const text = pair ? element("a", { href: `/pair/${encodeURIComponent(pair.id)}` }, alert.text) : alert.text;
  return element("li", {}, text, element("span", { class: "faint" }, ` since ${format.time(alert.raised_seconds)}${alert.is_silent ? ", silent" : ""}`));
}

function showAlerts() {
  const { standing, receivers } = status.alerts;
  const failing = receivers.filter((receiver) => receiver.failure);
  const place = document.getElementById("alerts");
  const content = JSON.stringify([standing, failing]);
  if (content === shownAlerts) return;
  shownAlerts = content;
  place.hidden = standing.length + failing.length === 0;
  const late = failing.map((receiver) => element("p", {}, `${receiver.waiting} messages wait for ${receiver.name}: it ${receiver.failure}`));
  const heading = element("p", { class: "state bad" }, `${standing.length} ${standing.length === 1 ? "alert" : "alerts"}`);
  place.replaceChildren(...(standing.length > 0 ? [heading, element("ul", { tabindex: 0 }, standing.map(alertItem))] : []), ...late);
}

// Which view

async function render() {
  view += 1;
  endings.splice(0).forEach((end) => end());
  if (!status) return;
  const [, name, id] = location.pathname.split("/").map(decodeURIComponent);
  for (const link of document.querySelectorAll("header nav a")) link.toggleAttribute("aria-current", link.getAttribute("href") === location.pathname);
  document.getElementById("matrix-link").hidden = !isMesh();
  try {
    if (name === "pair") await pairView(id);
    else if (name === "run") await runView(id);
    else if (name === "events") await eventsView();
    else if (name === "heatmap") await heatView();
    else if (name === "audit") await auditView();
    else if (name === "schedule") await scheduleView();
    else if (name === "paths" || !isMesh()) pathsView();
    else meshView();
  } catch (error) {
    show("Failure", element("h1", {}, "This could not be fetched"), element("p", {}, String(error.message ?? error)));
  }
}

function navigate(address) {
  history.pushState(null, "", address);
  render().then(() => main.focus({ preventScroll: true }));
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || link.origin !== location.origin || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  if (link.pathname.startsWith("/api/") || link.pathname === "/metrics" || link.pathname === "/login" || link.hash) return;
  event.preventDefault();
  navigate(link.href);
});
document.addEventListener("range", ({ detail }) => navigate(`${location.pathname}?from=${addressOf(detail.from)}&to=${addressOf(detail.to)}`));
document.addEventListener("open", ({ detail }) => navigate(detail));
addEventListener("popstate", () => render().then(() => location.pathname === "/" && focusMatrix()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);

const connection = document.getElementById("connection");
const REFRESH_MILLISECONDS = 5000;
let lastHeard = 0;

/** What concerns all views. */
function showNotices() {
  const { leader, archive_failure: failure, remote_write: remote } = status;
  const notices = [];
  if (leader && !leader.is_this) notices.push(element("p", { class: "calm" }, `This host stands by: ${leader.name} measures and writes, and was heard of ${format.age(leader.silent_seconds)} ago. What is shown is what it sees.`));
  if (failure) notices.push(element("p", {}, `Nothing is archived at present: ${failure}`));
  if (remote?.failure) notices.push(element("p", {}, `No figures are sent to the other database: ${remote.failure}`));
  // A reader of the screen says again what is written again.
  const text = notices.map((notice) => notice.textContent.replace(/heard of .* ago/, "")).join();
  const shown = document.getElementById("notices");
  if (shown.dataset.text !== text) shown.replaceChildren(...notices);
  shown.dataset.text = text;
}

function take(news) {
  const isFirst = status === null;
  const shownRun = shownPair()?.run?.id;
  status = news;
  lastHeard = performance.now();
  connection.textContent = `live, ${new Date(status.time_seconds * 1000).toLocaleTimeString()}`;
  showNotices();
  document.getElementById("monitor-name").textContent = `kumade monitor at ${status.name}`;
  showAlerts();
  if (isFirst || ["/", "/paths", "/schedule"].includes(location.pathname)) render();
  else if (shownPair()?.run?.id !== shownRun && !location.search.includes("from=")) render();
}

/** The pair whose page it is, if it is one. */
function shownPair() {
  const [, name, id] = location.pathname.split("/").map(decodeURIComponent);
  return name === "pair" ? status?.pairs.find((pair) => pair.id === id) : undefined;
}

function takeMessage(message) {
  if (message.revision === status?.revision) return;
  const news = merge(status, message);
  if (news) take(news);
  else ask();
}

let question = null;
/** All that is new; one question at a time. */
function ask() {
  question ??= askNow().finally(() => { question = null; });
  return question;
}

async function askNow() {
  try {
    const messages = await fetchJson(`/api/v1/changes?after=${encodeURIComponent(status?.revision ?? "")}`);
    // What came meanwhile is known.
    let news = status;
    for (const message of messages) if (message.revision !== news?.revision) news = merge(news, message) ?? news;
    if (news !== status || messages.length === 0) take(news);
  } catch (error) {
    connection.textContent = "connection lost: what is shown may be old";
    if (status === null) show("Failure", element("h1", {}, "The monitor does not answer"), element("p", {}, String(error.message ?? error)));
  }
}
ask();
fetchJson("/api/v1/visitor").then((visitor) => {
  document.getElementById("audit-link").hidden = visitor.class !== "admin";
  document.getElementById("logout").hidden = !visitor.is_logged_in;
  document.getElementById("login").hidden = !visitor.may_log_in;
  document.getElementById("visitor").textContent = visitor.name;
  document.body.dataset.class = visitor.class;
}, () => {});
// Browsers have locks for pages over TLS and from this host alone; others ask.
if (navigator.locks) follow({ latest: () => status, take: takeMessage, ask });
// A range that ends now goes on.
const goesOn = () => location.pathname.startsWith("/pair/") || (location.pathname === "/heatmap" && !document.activeElement?.closest("table.heat"));
setInterval(() => { if (goesOn() && !location.search.includes("from=") && !document.hidden) render(); }, 60000);
setInterval(() => { if (performance.now() - lastHeard > 2 * REFRESH_MILLISECONDS || !navigator.locks) ask(); }, REFRESH_MILLISECONDS);
