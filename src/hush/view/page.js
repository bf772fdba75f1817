// The list without a reload: filter, sort, selection, and what has changed since the last look, every two seconds.
"use strict";
(() => {
  const body = document.querySelector("#runs tbody");
  if (!body) return;
  const POLL = 2000, BUSY = 100;
  const find = (selector) => document.querySelector(selector);
  const form = find("#filter"), number = find("#number"), none = find("#none"), unread = find("#unread");
  const heads = [...document.querySelectorAll("th[data-down]")];
  const chosen = new Set();
  let version = document.body.dataset.version;

  // The token has become a cookie: it need not stand in the address.
  const address = new URL(location.href);
  address.searchParams.delete("token");
  address.searchParams.delete("once");
  history.replaceState(null, "", address);

  const key = (row, place) => row.cells[place + 1].dataset.key;
  function compared(one, other, down) {
    if (one === other) return 0;
    if (one === "") return 1;
    if (other === "") return -1;
    const numbers = Number(one) - Number(other);
    const order = Number.isNaN(numbers) ? (one < other ? -1 : 1) : numbers;
    return down ? -order : order;
  }
  function sort() {
    const place = heads.findIndex((head) => head.querySelector("a").dataset.sort === form.sort.value);
    const down = (heads[place].dataset.down === "1") !== form.turned.checked;
    heads.forEach((head, index) => {
      if (index === place) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const rows = [...body.rows];
    const sorted = [...rows].sort((one, other) =>
      compared(key(one, place), key(other, place), down) || compared(key(one, 0), key(other, 0), false));
    if (sorted.some((row, index) => row !== rows[index])) body.append(...sorted);
  }
  function filter() {
    const words = form.q.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of body.rows) {
      row.hidden = !words.every((word) => row.dataset.text.includes(word));
      shown += !row.hidden;
    }
    number.value = `${shown} of ${body.rows.length} runs`;
    none.hidden = shown > 0;
    none.textContent = body.rows.length ? "No run is of these words." : "There is no run here yet; hush run begins one.";
  }
  function choose() {
    for (const row of body.rows) {
      const box = row.querySelector("input");
      box.checked = chosen.has(box.value);
      row.classList.toggle("chosen", box.checked);
    }
    find("#count").textContent = chosen.size ? `${chosen.size} selected` : "";
    find("#chosen button").disabled = chosen.size < 2;
  }
  function remember() {
    const place = new URL(location.href);
    for (const name of ["q", "sort"]) place.searchParams.set(name, form[name].value);
    form.turned.checked ? place.searchParams.set("turned", "1") : place.searchParams.delete("turned");
    history.replaceState(null, "", place);
  }
  function arrange() { sort(); filter(); choose(); }

  form.addEventListener("input", () => { arrange(); remember(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  heads.forEach((head) => head.querySelector("a").addEventListener("click", (event) => {
    event.preventDefault();
    const name = event.currentTarget.dataset.sort;
    form.turned.checked = form.sort.value === name && !form.turned.checked;
    form.sort.value = name;
    arrange();
    remember();
  }));
  body.addEventListener("change", (event) => {
    event.target.checked ? chosen.add(event.target.value) : chosen.delete(event.target.value);
    choose();
  });

  function apply(news) {
    for (const gone of news.gone) {
      find(`#run-${gone}`)?.remove();
      chosen.delete(gone);
    }
    for (const [name, html] of Object.entries(news.rows)) {
      const made = document.createElement("template");
      made.innerHTML = html;  // made, and made harmless, by the server
      const old = find(`#run-${name}`);
      old ? old.replaceWith(made.content) : body.append(made.content);
    }
    unread.hidden = news.unread === 0;
    unread.firstElementChild.textContent = news.unread;
    version = news.version;
    if (news.gone.length || Object.keys(news.rows).length) arrange();
  }
  async function poll() {
    let wait = POLL;
    try {
      const answer = await fetch(`/changes?since=${version}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      const news = await answer.json();
      apply(news);
      if (news.unread) wait = BUSY;
      find("#away")?.remove();
    } catch {
      if (!find("#away")) {
        form.insertAdjacentHTML("beforebegin",
          '<p class="banner fair" role="status" id="away">hush view has ended: this list is no longer live.</p>');
      }
    }
    setTimeout(poll, document.hidden ? 5 * POLL : wait);
  }
  for (const box of body.querySelectorAll("input:checked")) chosen.add(box.value);
  arrange();
  setTimeout(poll, unread.hidden ? POLL : BUSY);
})();
