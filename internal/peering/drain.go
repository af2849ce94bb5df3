package peering

import "slices"

// keepDrained has policies for what is announced not take back that other nodes are to be
// preferred: see Routes.
func keepDrained(c Chain) {
	for i := range c.Statements {
		then := &c.Statements[i].Then
		if then.LocalPref != nil {
			then.LocalPref = new(uint32)
		}
		if change := then.Communities; change != nil {
			then.Communities = change.keepDrained()
		}
	}
}

// keepDrained is c without what would take GracefulShutdown away; nil when nothing is left.
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
