package routing

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// claims are the routes in the kernel that this program made. A mark says that a realm was
// used, and not which routes in it: another daemon may use the same protocol number later.
// So a process takes over all routes in the marked realms when it first sees them, and
// afterwards claims only what it writes itself.
type claims struct {
	routes map[claim]bool
	// pairs says of each protocol and table that was seen whether this program uses it.
	pairs map[pair]bool
}

// claim identifies a route.
type claim struct {
	place
	protocol uint8
}

// pair is a protocol number in a table.
type pair struct {
	protocol int
	table    uint32
}

func newClaims() claims { return claims{routes: map[claim]bool{}, pairs: map[pair]bool{}} }

func (r route) claim() claim { return claim{r.place, r.protocol} }

func (r Realm) pair() pair { return pair{r.Protocol, mainTable(r.Table)} }

// update takes over the routes of an earlier process, and drops the claims to routes that are
// no longer in the kernel.
func (c claims) update(own, marked realms, found []route) {
	there := make(map[claim]bool, len(found))
	all := joined(own, marked)
	for _, f := range found {
		there[f.claim()] = true
		if _, seen := c.pairs[pair{int(f.protocol), f.table}]; !seen && marked.use(f) && all.has(f) {
			c.routes[f.claim()] = true
		}
	}
	for claim := range c.routes {
		if !there[claim] {
			delete(c.routes, claim)
		}
	}
	for _, r := range marked {
		c.pairs[r.pair()] = true
	}
}

// has reports whether this program made a route.
func (c claims) has(r route) bool { return c.routes[r.claim()] }

// note records the answer of the kernel to a step. Without an answer the route may be there.
func (c claims) note(s step, err error) {
	var refused unix.Errno
	switch no := errors.As(err, &refused); {
	case s.do != remove && !no:
		c.routes[s.route.claim()] = true
	case s.do == remove && (err == nil || refused == unix.ESRCH):
		delete(c.routes, s.route.claim())
	}
}

// tables returns the tables that contain claimed routes.
func (c claims) tables() map[uint32]bool {
	all := make(map[uint32]bool)
	for claim := range c.routes {
		all[claim.table] = true
	}
	return all
}

// sort divides the realms of w. In mine are those that this program may use. In shared are
// those of mine that contain routes of another program, which came later. problems has one
// problem for each realm with routes of another program.
func (c claims) sort(own realms, found []route) (mine, shared realms, problems []Problem) {
	for _, r := range own {
		p := c.foreignIn(r, found)
		switch uses := c.pairs[r.pair()]; {
		case p.Foreign == 0:
			mine = append(mine, r)
			continue
		case uses:
			mine, shared = append(mine, r), append(shared, r)
			p.Err = fmt.Errorf("%w: %d routes of protocol %d that another program added", ErrShared, p.Foreign, r.Protocol)
		default:
			p.Err = fmt.Errorf("%w: %d routes of protocol %d that this program did not make", ErrForeign, p.Foreign, r.Protocol)
		}
		problems = append(problems, p)
	}
	for _, r := range mine {
		c.pairs[r.pair()] = true
	}
	return mine, shared, problems
}

// foreignIn counts the routes in r that this program did not make. The problem describes the
// first of them.
func (c claims) foreignIn(r Realm, found []route) (p Problem) {
	for _, f := range found {
		if !r.has(f) || c.has(f) {
			continue
		}
		if p.Foreign == 0 {
			p = f.problem(nil)
		}
		p.Foreign++
	}
	return p
}
