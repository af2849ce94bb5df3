package v1

import (
	"encoding/json"
	"math"
	"strconv"
)

// PeerASN is the number of a neighbor's autonomous system, or AnyExternal or Internal. In JSON
// these two are the words "external" and "internal". 0 means that the field is not set.
type PeerASN int64

// Words instead of a number. No JSON number has these values.
const (
	AnyExternal PeerASN = math.MinInt64 + iota
	Internal
	// unknownWord is any other text. It is no number of an autonomous system.
	unknownWord
)

const (
	external = "external"
	internal = "internal"
)

// String returns the number or the word.
func (a PeerASN) String() string {
	switch a {
	case AnyExternal:
		return external
	case Internal:
		return internal
	case unknownWord:
		return "a word"
	}
	return strconv.FormatInt(int64(a), 10)
}

// MarshalJSON returns a JSON number, or one of the words.
func (a PeerASN) MarshalJSON() ([]byte, error) {
	if a <= unknownWord {
		return json.Marshal(a.String())
	}
	return json.Marshal(int64(a))
}

// UnmarshalJSON reads a JSON number, or one of the words. Another text is no error, because one
// such object would keep a client from reading all objects.
func (a *PeerASN) UnmarshalJSON(data []byte) error {
	var word string
	if err := json.Unmarshal(data, &word); err != nil {
		var n int64
		if err := json.Unmarshal(data, &n); err != nil {
			return err
		}
		*a = max(PeerASN(n), unknownWord)
		return nil
	}
	switch word {
	case external:
		*a = AnyExternal
	case internal:
		*a = Internal
	default:
		*a = unknownWord
	}
	return nil
}

// LocalASN is the number of the node's autonomous system as a decimal text, or a template that
// yields it. In JSON a number is a JSON number. "" means that the field is not set.
type LocalASN string

// MarshalJSON returns a JSON number, or the template.
func (a LocalASN) MarshalJSON() ([]byte, error) {
	if n, err := strconv.ParseInt(string(a), 10, 64); err == nil {
		return json.Marshal(n)
	}
	return json.Marshal(string(a))
}

// UnmarshalJSON reads a JSON number, where 0 means that the field is not set, or a template.
func (a *LocalASN) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err == nil {
		*a = LocalASN(text)
		return nil
	}
	var n int64
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	*a = ""
	if n != 0 {
		*a = LocalASN(strconv.FormatInt(n, 10))
	}
	return nil
}
