// Takes in what a part of a page is now, so that what did not change stays as the reader has it: what is
// ticked, open or being typed. With Idiomorph, which is loaded beside this.

const STAYS = [["checked", "input"], ["open", "details"], ["class", ".show"], ["style", ".show"], ["aria-expanded", ".show"], ["role", "table, thead, tbody, tr, td, th"]];

/** Makes of a part what it is now. */
export function morph(node, html) {
  Idiomorph.morph(node, html, {
    morphStyle: "innerHTML",
    callbacks: {
      beforeNodeMorphed: (old) => !old.dataset || !("still" in old.dataset),
      // What a reader has ticked or opened stays so.
      beforeAttributeUpdated: (name, of) => !(name === "value" && of.matches("input") && of.value !== of.defaultValue) && !STAYS.some(([attribute, which]) => name === attribute && of.matches(which)),
    },
    // Which would leave the words of a button as they are, where the focus is on it.
    ignoreActiveValue: document.activeElement.matches("input, select, textarea"),
  });
}
