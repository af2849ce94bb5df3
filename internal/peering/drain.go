package peering

import "slices"

// keepDrained changes export policies so that they keep the request to prefer other nodes:
// see Routes.
func keepDrained(c Chain) {
	for i := range c.Statements {
		then := &c.Statements[i].Then
		// The node's own routes have the local preference 0 already, and GoBGP cannot set that.
		then.LocalPref = nil
		if change := then.Communities; change != nil {
			then.Communities = change.keepDrained()
		}
	}
}

// keepDrained returns c without the parts that remove GracefulShutdown, or nil if no part is
// left.
func (c CommunityChange) keepDrained() *CommunityChange {
	shutdown := communityText(GracefulShutdown)
	switch c.Change {
	case Replace:
		c.List = append(slices.Clone(c.List), shutdown)
	case Remove:
		c.List = slices.DeleteFunc(slices.Clone(c.List), func(text string) bool { return text == shutdown })
		if len(c.List) == 0 {
			return nil
		}
	}
	return &c
}
