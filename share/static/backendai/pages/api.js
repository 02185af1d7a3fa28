// Calls of the service. What it says is shown as it says it.

export const page = document.getElementById("bk-page");
export const { service, xsrf } = page.dataset;

/** A refusal of the service: `errors` as it gave them. */
export class Refused extends Error {
  constructor(status, errors) {
    super(errors.map((error) => error.message).join(" "));
    this.status = status;
    this.errors = errors;
  }
}

/** An address below the service's. */
export const at = (path) => new URL(service + path, location.origin);

/** What the service said of a call that it refused. */
export async function refusal(reply) {
  let errors = [];
  try {
    errors = (await reply.json()).errors ?? [];
  } catch {
    // no answer of the service's: a proxy's, or none at all
  }
  if (!errors.length) errors = [{ field: "", code: "", message: "The sessions service does not answer. Try again in a moment." }];
  return new Refused(reply.status, errors);
}

const PATIENCE = 60000; // ms for an answer

async function ask(address, options = {}) {
  let reply;
  try {
    reply = await fetch(address, { signal: AbortSignal.timeout(PATIENCE), ...options, headers: { "X-XSRFToken": xsrf, ...options.headers } });
  } catch {
    throw new Refused(0, [{ field: "", code: "", message: "There is no connection. Try again in a moment." }]);
  }
  if (!reply.ok) throw await refusal(reply);
  return reply;
}

/** A call of the API; its answer as JSON, or null where there is none. Throws `Refused`. */
export async function call(method, path, body, headers = {}) {
  const options = { method, headers };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "Content-Type": "application/json", ...headers };
  }
  const reply = await ask(at(path), options);
  return reply.status === 204 ? null : reply.json();
}

/** A form's fields to the page's own address, for one of its parts; the answer as JSON. Throws `Refused`. */
export async function send(name, fields, signal) {
  const url = new URL(location.pathname, location.origin);
  url.searchParams.set("part", name);
  return (await ask(url, { method: "POST", body: new URLSearchParams(fields), signal })).json();
}

/** A part of the page at an address, as HTML. Throws `Refused`. */
export async function part(name, address = location.href) {
  const url = new URL(address, location.href);
  url.searchParams.set("part", name);
  url.hash = "";
  return (await ask(url)).text();
}

/** Server-sent events of those sessions: "" one's own, "*" everybody's, or an owner's. */
export function events(owner) {
  const url = at("api/events");
  if (owner) url.searchParams.set("owner", owner);
  url.searchParams.set("_xsrf", xsrf);
  return new EventSource(url);
}

/** Says something at the top of the page; empty takes it away. */
export function trouble(text, href = "") {
  const box = document.getElementById("bk-trouble");
  box.textContent = text;
  if (href) {
    const link = document.createElement("a");
    link.href = href;
    link.className = "ms-1";
    link.textContent = "Sign in again";
    box.append(link);
  }
  box.hidden = !text;
}

/** Has a screen reader say something. */
export function say(text) {
  document.getElementById("bk-spoken").textContent = text;
}
