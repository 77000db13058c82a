// Values as people read them. Each has its unit; one that is not known says so.

const scaled = (value, units) => {
  const [factor, unit] = units.find(([factor]) => Math.abs(value) >= factor) ?? units[units.length - 1];
  return [value / factor, unit, factor];
};
const digits = (value) => (value === 0 ? "0" : Number(value.toPrecision(3)).toString());

const RATES = [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]];
const SIZES = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
const SPANS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]];

export const rate = (value) => withUnit(value, RATES);
export const size = (value) => withUnit(value, SIZES);
export const span = (value) => (value < 1e-6 ? "0 µs" : withUnit(value, SPANS));

function withUnit(value, units) {
  const [number, unit] = scaled(value, units);
  return `${digits(number)}\u00a0${unit}`;
}

/** An estimate with its interval in the value's unit: "48.2 Mbit/s (46.1 to 50)". */
export function rateEstimate(estimate) {
  const [value, unit, factor] = scaled(estimate.value, RATES);
  return [`${digits(value)} ${unit}`, `${digits(estimate.low / factor)} to ${digits(estimate.high / factor)}`];
}

export function ratio(value) {
  // An interval's end may be off zero by rounding.
  if (value < 1e-9) return "0\u00a0%";
  return value < 0.0001 ? "<\u00a00.01\u00a0%" : `${digits(value * 100)}\u00a0%`;
}

/** "3 min", for ages and lengths. */
export function age(seconds) {
  const units = [[31536000, "y"], [86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [factor, unit] = units.find(([factor]) => seconds >= factor) ?? [1, "s"];
  return `${Math.floor(seconds / factor)} ${unit}`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit" });
const SECONDS = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const MONTH = new Intl.DateTimeFormat(undefined, { month: "short", year: "numeric" });

/** What stands at a place of an axis, of which there is one every `step` seconds: the day where another one begins. */
export function tick(seconds, before, step) {
  const date = new Date(seconds * 1000);
  if (step >= 27 * 86400) return MONTH.format(date);
  const day = DAY.format(date);
  if (step >= 86400) return day;
  const isOther = before === undefined || DAY.format(new Date(before * 1000)) !== day;
  return `${(step < 60 ? SECONDS : CLOCK).format(date)}${isOther ? `\n${day}` : ""}`;
}

/** In the viewer's zone. */
const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
export const time = (seconds) => TIME.format(new Date(seconds * 1000));
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;
