// The search reads an index of all sections (search-index.js, which tools/site writes), at the first letter.
const field = document.getElementById('search'), found = document.getElementById('found');
const root = document.currentScript ? document.currentScript.src.replace(/site\.js.*$/, '') : './';

function load() {
  if (window.searchIndex) return Promise.resolve(window.searchIndex);
  return new Promise((resolve) => {
    const script = document.createElement('script');
    script.src = root + 'search-index.js';
    script.onload = () => resolve(window.searchIndex);
    document.head.append(script);
  });
}

function score(section, words) {
  let sum = 0;
  for (const word of words) {
    const inHeading = section.h.toLowerCase().includes(word), at = section.low.indexOf(word);
    if (!inHeading && at < 0) return 0;
    sum += inHeading ? 10 : Math.min(5, section.low.split(word).length - 1);
  }
  return sum;
}

function excerpt(section, word) {
  const at = Math.max(0, section.low.indexOf(word) - 60);
  return (at ? '… ' : '') + section.b.slice(at, at + 160);
}

async function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = true;
  if (!words.length) return;
  const all = await load();
  const hits = all.map((s) => ({s, n: score(s, words)})).filter((h) => h.n).sort((a, b) => b.n - a.n).slice(0, 15);
  found.replaceChildren(...(hits.length ? hits.map(({s}) => {
    const item = document.createElement('li'), link = document.createElement('a'), text = document.createElement('small');
    link.href = root + s.u;
    link.textContent = s.p === s.h ? s.p : s.p + ' › ' + s.h;
    text.textContent = excerpt(s, words[0]);
    link.append(text);
    item.append(link);
    return item;
  }) : ['Nothing has all of these words.']));
  found.hidden = false;
}

field.addEventListener('input', search);
document.addEventListener('keydown', (e) => {
  if (e.key === '/' && document.activeElement !== field) { e.preventDefault(); field.focus(); }
  if (e.key === 'Escape') { found.hidden = true; field.blur(); }
});
document.addEventListener('click', (e) => { if (!e.target.closest('header')) found.hidden = true; });

// versions.js, beside the folders of the versions, names them. A single version has no such file.
const versions = document.getElementById('versions'), list = document.createElement('script');
list.src = root + '../versions.js';
list.onload = () => versions.replaceChildren(...window.siteVersions.map((v) => new Option(v, v, false, v === versions.dataset.here)));
document.head.append(list);
versions.addEventListener('change', () => { location.href = root + '../' + versions.value + '/index.html'; });

const asked = new URLSearchParams(location.search).get('q');
if (asked) { field.value = asked; search(); }
