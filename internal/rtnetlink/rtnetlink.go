// Package rtnetlink carries questions to the kernel and its answers back
// (rtnetlink(7), netlink(7)): one at a time, many at once, whole tables, and what
// the kernel tells unasked.
//
// It knows how messages are framed, numbered and acknowledged, and how they get
// lost. It does not know what any of them means. A table is complete and of one
// moment, or an error; and whoever follows changes is told when one was lost.
//
// Numbers in messages are in the byte order of the machine. A refusal of the
// kernel is an error that wraps the unix.Errno, with the kernel's explanation
// where it has one.
package rtnetlink
