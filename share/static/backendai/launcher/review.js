// The review: a card for each part, with a link to edit it and what is wrong with it.

function card({ title, glyph, step, width, fields, list }, ...body) {
  const wrong = list.filter((p) => fields.test(p.field));
  return el("div", { class: width },
    el("section", { class: `bk-panel bk-rev ${wrong.length ? "wrong" : ""}` },
      el("header", {}, icon(glyph, "fa-fw bk-quiet"), el("h3", {}, title),
        el("a", { class: "bk-14", href: `#step-${step}`, "aria-label": `Edit: ${title}` }, icon("pen", "me-1"), "Edit")),
      el("div", {}, ...body, wrong.map((p) => el("p", { class: "bk-bad bk-14 mb-0 mt-2" }, icon("circle-exclamation", "me-1"), p.message)))));
}

function facts(...pairs) {
  return el("dl", { class: "bk-facts" }, pairs.filter((pair) => pair && pair[1]).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

let valuesShown = false;

function variables() {
  const rows = $$(".bk-envrow", envRows).map((row) => $$("input", row).map((i) => i.value)).filter(([name]) => name);
  if (!rows.length) return null;
  return [
    ...rows.map(([name, value]) => el("div", { class: "bk-mono" }, `${name}=${valuesShown ? value : "•".repeat(Math.min(value.length, 8))}`)),
    el("button", { type: "button", class: "bk-plain bk-13", onclick: () => { valuesShown = !valuesShown; renderReview(problems()); } }, valuesShown ? "Hide values" : "Show values"),
  ];
}

function imageLine() {
  const image = chosen("image") || field(`version.${environment()?.name}`)?.selectedOptions[0]?.dataset.image;
  return image && [el("span", { class: "bk-mono" }, image), " ",
    el("button", { type: "button", class: "bk-plain ms-1", "aria-label": "Copy the image name", onclick: (event) => copy(image, event.currentTarget) }, icon("copy"))];
}

function amountFigures() {
  const names = { cpu: "CPU", mem: "Memory", shm: "Shared memory" };
  const slot = gpuSlot();
  return [el("div", { class: "bk-amounts" }, SLOTS.filter((s) => names[s] || s === slot).map((s) => {
    const [number, ...unit] = amount(s) === null ? ["auto"] : AMOUNT[s](amount(s)).split(" ");
    return el("div", {}, el("span", {}, names[s] ?? "GPU"), el("b", {}, number), ` ${unit.join(" ")}`, s === "mig" ? ` (${profile()})` : "");
  })), amount(slot) > 0 ? $("[data-kind]:not([hidden])", amountInput(slot).closest(".bk-slot"))?.cloneNode(true) : null];
}

function verdictLine() {
  const v = outlook ?? verdict();
  if (v.code === "never") return null;
  return el("div", { class: `bk-14 ${LOOK[v.code]?.[1] ?? "bk-warn"}` }, icon(LOOK[v.code]?.[0] ?? "hourglass-half", "me-1"), [v.text, v.why].filter(Boolean).join(" "));
}

function folderTable() {
  const rows = mountRows();
  const auto = view.folders.filter((f) => f.auto).map((f) => f.name);
  const warning = el("div", { class: "bk-13 bk-quiet" }, "Files outside these folders go when the session ends.",
    auto.length ? ` Mounted by itself: ${auto.join(", ")}.` : "");
  if (!rows.length) return [el("p", { class: "bk-warn mb-2" }, icon("triangle-exclamation", "me-1"), "No folder is mounted."), el("div", { class: "bk-13 bk-quiet" }, "Everything you save in this session goes when it ends.")];
  return [el("dl", { class: "bk-facts mb-2" }, rows.map((row) => [
    el("dt", { class: "text-body" }, row.dataset.folder.split("/").pop(), row.classList.contains("new") ? el("span", { class: "bk-tag ms-2" }, "new") : null),
    el("dd", {}, el("span", { class: "bk-mono" }, placeOf(row)), el("span", { class: "bk-quiet bk-13 ms-2" }, permissionOf(row))),
  ])), warning];
}

/** Shows the review anew; who is on a link or button of it stays there. */
function renderReview(list) {
  const at = $$("a, button", $("#bk-review")).indexOf(document.activeElement);
  fillReview(list);
  $$("a, button", $("#bk-review"))[at]?.focus();
}

function fillReview(list) {
  const e = environment(), g = group(), select = field(`version.${e?.name}`);
  const base = preset() ? (isCustom() ? `Custom, changed from ${preset().name}` : `Preset ${preset().name}`) : "Custom";
  $("#bk-review").replaceChildren(
    card({ title: "Session type", glyph: isBatch() ? "list-check" : "display", step: 1, width: "col-md-6", fields: /^(type|name|project|owner|batch|count|priority|depends_on)/, list },
      facts(["Type", isBatch() ? "Batch" : "Interactive"], ["Name", chosen("name") || "made up for you"], field("owner") ? ["Owner", chosen("owner")] : null,
        field("project") ? ["Project", chosen("project") || "chosen for you"] : null, ...batchFacts(), ...orderFacts())),
    card({ title: "Environment", glyph: e?.icon || "cube", step: 2, width: "col-md-6", fields: /^(environment|version|image|env)/, list },
      facts(chosen("image") ? null : ["Environment", e && `${e.title || e.name} ${select?.value === "default" ? "" : select?.value ?? ""}`.trim()], ["Image", imageLine()], ["Variables", variables()])),
    card({ title: "Resources", glyph: "microchip", step: 2, width: "col-12", fields: /^(resource|preset|threads|agent)/, list },
      ...amountFigures(), el("div", { class: "bk-14 bk-quiet mb-1" }, `${base} in ${g?.title || g?.name}. ${$("#bk-more-says").textContent}.`), verdictLine()),
    card({ title: "Data and storage", glyph: "folder", step: 3, width: "col-md-7", fields: /^mounts/, list },
      ...(view.folders_enabled ? folderTable() : ["This Hub has no folders yet. Everything you save goes when the session ends."])),
    card({ title: "Network", glyph: "network-wired", step: 4, width: "col-md-5", fields: /^preopen_ports/, list },
      el("span", { class: "d-block bk-14 bk-quiet mb-2" }, "Preopen ports"),
      el("div", { class: "d-flex flex-wrap gap-2" }, ports().map(({ text, wrong }) => el("span", { class: `bk-tag bk-num ${wrong ? "bad" : ""}` }, wrong ? icon("circle-exclamation") : null, text)),
        ports().length ? null : "None")),
  );
}

function batchFacts() {
  if (!isBatch()) return [];
  const limit = chosen("timeout"), unit = field("timeout_unit").selectedOptions[0].textContent;
  return [
    ["Command", chosen("command") && el("pre", { class: "bk-mono bk-script" }, chosen("command"))],
    ["Not before", chosen("starts_at")],
    ["Time limit", limit && (Number(limit) ? `${limit} ${Number(limit) === 1 ? unit.replace(/s$/, "") : unit}` : limit)],
  ];
}

/** Names of the sessions that are waited for. */
const waitedFor = () => [
  ...$$("input[name=depends_on]:checked", form).map((box) => box.dataset.name),
  ...(field("depends_on_names")?.value.split(/[\s,]+/).filter(Boolean) ?? []),
];

const orderFacts = () => (view.service ? [
  ["Sessions", Number(chosen("count")) > 1 && chosen("count")], ["Priority", chosen("priority")], ["After", waitedFor().join(", ")],
] : []);

/** What the rail says under each step. */
function summaries() {
  const e = environment(), folders = mountRows().length, open = ports().length;
  const version = field(`version.${e?.name}`)?.value;
  const mine = SLOTS.filter((slot) => slot !== "shm" && amount(slot)).map((slot) => AMOUNT[slot](amount(slot))).join(", ");
  return [
    [isBatch() ? "Batch" : "Interactive", chosen("name"), Number(chosen("count")) > 1 ? `${chosen("count")} sessions` : ""].filter(Boolean).join(", "),
    [chosen("image") || `${e?.title || e?.name || ""} ${version && version !== "default" ? version : ""}`.trim(), mine].filter(Boolean).join(", "),
    folders ? `${folders} ${folders === 1 ? "folder" : "folders"}` : "No folder",
    open ? `${open === 1 ? "Port" : "Ports"} ${ports().map((p) => p.text).join(", ")}` : "No port",
    "Nothing starts before this",
  ];
}
