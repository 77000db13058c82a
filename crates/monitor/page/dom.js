// Elements from values. Text is text: nothing that comes from a host is read as HTML.

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") made.className = value;
    else if (key in made && typeof value === "function") made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export const table = (headings, rows, caption) =>
  element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    element("table", {},
      element("thead", {}, element("tr", {}, headings.map((text) => element("th", { scope: "col" }, text)))),
      element("tbody", {}, rows)));

/** Puts this into `place`, if it is something else; a link that has the focus keeps it. */
export function replaceContent(place, children) {
  const fresh = element("div", {}, children);
  if (fresh.innerHTML === place.innerHTML && !fresh.querySelector("canvas")) return;
  const focused = place.contains(document.activeElement) ? document.activeElement.closest("a")?.getAttribute("href") : null;
  place.replaceChildren(...fresh.childNodes);
  if (focused) [...place.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
}
