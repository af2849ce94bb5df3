package routing

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// claims are the routes in the kernel that this program made. A mark shows only that this
// program has used a realm, not which routes it made. Another daemon may use the same
// protocol number later. So a process claims all routes in a marked realm when it first
// reads the realm. Afterwards it claims only routes that it writes itself.
type claims struct {
	routes map[claim]bool
	// pairs has the known pairs. The value is true if this program uses the pair.
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

// note records the answer of the kernel to a step. Without an answer the route may exist.
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

// sort divides the realms of w. mine are the realms that this program may use. shared are
// the realms in mine to which another program has since added routes. problems has one
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
