"use strict";
// Details of tokens, under the pointer and with the keyboard; and, in the playground, the text box. Without this script
// the page shows the same tokens, each with a title. Everything is written with textContent; only the playground's
// answer is HTML, which the server has escaped with the function that made the page.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const details = document.getElementById("details");
  const facts = document.getElementById("facts");
  const tree = document.getElementById("tree");
  let pinned = false;
  let current = null;

  const element = (name, text) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const branch = (tokens, id, depth) => {
    const [spelled, rank, left, right] = tokens[id] || ["?", null, null, null];
    const item = element("li");
    item.append(element("code", spelled), ` id ${id}` + (rank === null ? "" : `, rank ${rank}`));
    if (left !== null && left !== undefined) {
      const parts = element("ul");
      if (depth > 24) parts.append(element("li", "…"));
      else parts.append(branch(tokens, left, depth + 1), branch(tokens, right, depth + 1));
      item.append(parts);
    }
    return item;
  };

  const show = (token) => {
    if (current) { current.classList.remove("now"); current.setAttribute("aria-selected", "false"); }
    current = token;
    token.classList.add("now");
    token.setAttribute("aria-selected", "true");
    const tokens = data[token.parentElement.dataset.tokens] || {};
    const id = token.dataset.i;
    facts.replaceChildren(element("strong", id in tokens ? tokens[id][0] : token.textContent), " ",
      element("span", token.dataset.title || ""));
    tree.replaceChildren();
    if (id in tokens && tokens[id][2] !== null && tokens[id][2] !== undefined) {
      const list = element("ul");
      list.append(branch(tokens, id, 0));
      tree.append(list);
    }
    details.hidden = false;
  };

  const close = () => {
    details.hidden = true;
    pinned = false;
    if (current) current.classList.remove("now");
  };

  const token_of = (event) => event.target.closest && event.target.closest("div.bpe-tokens > span");

  // One token of each box is in the order of the Tab key; the arrow keys move to the others.
  const prepare = (box) => {
    box.setAttribute("role", "listbox");
    box.removeAttribute("tabindex");
    [...box.children].forEach((token, i) => {
      token.setAttribute("role", "option");
      token.setAttribute("aria-selected", "false");
      token.tabIndex = i ? -1 : 0;
      token.dataset.title = token.title;
      token.setAttribute("aria-label", `${token.textContent.trim() || "space"}, ${token.title}`);
      token.removeAttribute("title");
    });
  };

  const move = (token, to) => {
    if (!to) return;
    token.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  };

  document.addEventListener("pointerover", (event) => {
    const token = token_of(event);
    if (token && !pinned && event.pointerType === "mouse") show(token);
  });
  document.addEventListener("click", (event) => {
    const token = token_of(event);
    if (!token) return;
    pinned = true;
    move(token.parentElement.querySelector("[tabindex='0']") || token, token);
    show(token);
  });
  document.addEventListener("focusin", (event) => {
    const token = token_of(event);
    if (token) show(token);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    const token = token_of(event);
    if (!token) return;
    const rtl = getComputedStyle(token.parentElement).direction === "rtl";
    const next = rtl ? "ArrowLeft" : "ArrowRight";
    const back = rtl ? "ArrowRight" : "ArrowLeft";
    const to = {
      [next]: token.nextElementSibling, ArrowDown: token.nextElementSibling,
      [back]: token.previousElementSibling, ArrowUp: token.previousElementSibling,
      Home: token.parentElement.firstElementChild, End: token.parentElement.lastElementChild,
    }[event.key];
    if (to) { event.preventDefault(); move(token, to); }
  });
  details.querySelector("button").addEventListener("click", () => { if (current) current.focus(); close(); }); // in this order: focus shows details
  document.querySelectorAll("div.bpe-tokens").forEach(prepare);

  // The playground.
  const form = document.getElementById("play");
  if (!form) return;
  const box = form.querySelector("textarea");
  const panels = document.getElementById("panels");
  let waiting = null, asked = 0;
  const ask = async () => {
    const number = ++asked;
    try {
      const answer = await fetch("tokens", {
        method: "POST", headers: { "Content-Type": "application/json", "X-Page-Token": form.dataset.token },
        body: JSON.stringify({ text: box.value }),
      });
      const said = await answer.json();
      if (number !== asked) return;
      if (!answer.ok) { panels.replaceChildren(Object.assign(element("p", said.error), { className: "fail" })); return; }
      Object.keys(data).forEach((name) => delete data[name]);
      Object.assign(data, said.data);
      close();
      current = null;
      panels.innerHTML = said.html;
      panels.querySelectorAll("div.bpe-tokens").forEach(prepare);
    } catch (error) {
      if (number === asked) panels.replaceChildren(Object.assign(element("p", "The server does not answer: " + error.message), { className: "fail" }));
    }
  };
  box.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 120); });
  form.addEventListener("submit", (event) => { event.preventDefault(); ask(); });
})();
