// Command site finishes the site that Hugo has built into a folder: it fails if a link leads to no page or to
// no heading, and writes the index of the search.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"strings"

	"golang.org/x/net/html"
)

func main() {
	if err := finish(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func finish(dir string) error {
	pages, err := read(os.DirFS(dir))
	if err != nil {
		return fmt.Errorf("read the site: %w", err)
	}
	var sections []section
	for _, p := range pages {
		sections = append(sections, p.sections...)
	}
	index, err := json.Marshal(sections)
	if err != nil {
		return fmt.Errorf("write the index: %w", err)
	}
	script := "searchIndex = " + string(index) + ";\nfor (const s of searchIndex) s.low = s.b.toLowerCase();\n"
	if err := os.WriteFile(path.Join(dir, "search-index.js"), []byte(script), 0o644); err != nil {
		return fmt.Errorf("write the index: %w", err)
	}
	return broken(os.DirFS(dir), pages)
}

// A page is what the check and the search need of one.
type page struct {
	file     string
	ids      map[string]bool
	links    []string
	sections []section
}

// A section is the text below one heading. Its fields have short names because each visitor loads them.
type section struct {
	Page    string `json:"p"`
	Heading string `json:"h"`
	URL     string `json:"u"`
	Body    string `json:"b"`
}

func read(site fs.FS) (pages []page, err error) {
	err = fs.WalkDir(site, ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".html" {
			return err
		}
		text, err := site.Open(file)
		if err != nil {
			return err
		}
		defer text.Close()
		root, err := html.Parse(text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		p := page{file: file, ids: map[string]bool{}}
		for n := range root.Descendants() {
			p.add(n)
		}
		pages = append(pages, p)
		return nil
	})
	return pages, err
}

// add takes what a node of the page means. Text before the first heading belongs to the navigation.
func (p *page) add(n *html.Node) {
	if n.Type == html.TextNode {
		if len(p.sections) == 0 || inHeading(n) {
			return
		}
		last := &p.sections[len(p.sections)-1]
		last.Body = strings.TrimSpace(last.Body + " " + strings.Join(strings.Fields(n.Data), " "))
		return
	}
	attributes := map[string]string{}
	for _, a := range n.Attr {
		attributes[a.Key] = a.Val
	}
	if id := attributes["id"]; id != "" {
		p.ids[id] = true
	}
	for _, key := range []string{"href", "src"} {
		if to := attributes[key]; to != "" {
			p.links = append(p.links, to)
		}
	}
	if id := attributes["id"]; id != "" && isHeading(n) {
		heading := strings.TrimSuffix(strings.TrimSpace(textOf(n)), " #")
		title := heading
		if len(p.sections) > 0 {
			title = p.sections[0].Heading
		}
		p.sections = append(p.sections, section{Page: title, Heading: heading, URL: p.file + "#" + id})
	}
}

func isHeading(n *html.Node) bool { return len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] <= '6' }

func inHeading(n *html.Node) bool {
	for a := range n.Ancestors() {
		if isHeading(a) {
			return true
		}
	}
	return false
}

func textOf(n *html.Node) string {
	var all strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			all.WriteString(d.Data)
		}
	}
	return all.String()
}

// broken returns the links that lead nowhere inside of the site.
func broken(site fs.FS, pages []page) error {
	ids := map[string]map[string]bool{}
	for _, p := range pages {
		ids[p.file] = p.ids
	}
	var errs []error
	for _, p := range pages {
		for _, link := range p.links {
			to, err := url.Parse(link)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", p.file, err))
				continue
			}
			if to.IsAbs() {
				continue
			}
			file := p.file
			if to.Path != "" {
				file = path.Join(path.Dir(p.file), to.Path)
			}
			if _, err := fs.Stat(site, file); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: there is no such page", p.file, link))
			} else if to.Fragment != "" && !ids[file][to.Fragment] {
				errs = append(errs, fmt.Errorf("%s: %s: the page has no such heading", p.file, link))
			}
		}
	}
	return errors.Join(errs...)
}
