package explain

// Table is a part of an answer: a title, rows under a head, and lines of text. Each may be
// missing.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
	Lines []string
}

// orDash returns text, or a dash for "".
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// unreadTable lists the unknown kinds.
func unreadTable(unread []Unread) []Table {
	if len(unread) == 0 {
		return nil
	}
	t := Table{Title: "Unknown"}
	for _, u := range unread {
		t.Lines = append(t.Lines, u.String())
	}
	return []Table{t}
}
