package gossip

import (
	"fmt"
	"strconv"
	"strings"
)

// identity identifies a process. The library uses it as the name of a member.
type identity struct {
	node     string
	instance uint64
}

func (i identity) String() string { return fmt.Sprintf("%s#%016x", i.node, i.instance) }

func parseIdentity(name string) (identity, error) {
	at := strings.LastIndexByte(name, '#')
	if at <= 0 || len(name)-at != 17 {
		return identity{}, fmt.Errorf("%q is not the name of a process", name)
	}
	instance, err := strconv.ParseUint(name[at+1:], 16, 64)
	if err != nil {
		return identity{}, fmt.Errorf("%q is not the name of a process", name)
	}
	return identity{name[:at], instance}, nil
}
