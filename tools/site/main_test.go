package main

import (
	"testing"
	"testing/fstest"
)

const (
	first  = `<nav><a href="b.html">B</a></nav><main><h1 id="a">A</h1><p>one <a href="dir/b.html#two">b</a></p></main>`
	second = `<main><h1 id="b">B</h1><h2 id="two">Two <a class="anchor" href="#two">#</a></h2><p>words of  two</p><a href="../a.html#away">a</a></main>`
)

func TestBrokenLinksAreNamed(t *testing.T) {
	site := fstest.MapFS{"a.html": {Data: []byte(first)}, "dir/b.html": {Data: []byte(second)}}
	pages, err := read(site)
	if err != nil {
		t.Fatal(err)
	}
	want := "a.html: b.html: there is no such page\ndir/b.html: ../a.html#away: the page has no such heading"
	if err := broken(site, pages); err == nil || err.Error() != want {
		t.Errorf("got %v, want\n%s", err, want)
	}
	if got, want := pages[1].sections[1], (section{Page: "B", Heading: "Two", URL: "dir/b.html#two", Body: "words of two a"}); got != want {
		t.Errorf("the search finds %+v, want %+v", got, want)
	}
}
