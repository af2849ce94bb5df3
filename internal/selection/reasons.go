package selection

// Reasons of the condition of a Service that has what it wants, as far as we
// give it anything.
const (
	ReasonAllocated = "Allocated"
	ReasonPartial   = "PartiallyAllocated"
	ReasonConflict  = "AddressConflict"
	ReasonDeleting  = "Deleting"
)

// Reasons of the condition of a Service that is refused something.
const (
	ReasonExhausted         = "Exhausted"
	ReasonUnknown           = "UnknownPool"
	ReasonNoPool            = "NoUsablePool"
	ReasonDenied            = "NamespaceDenied"
	ReasonAmbiguous         = "AmbiguousNamespaceDefault"
	ReasonNamespaceUnknown  = "NamespaceUnknown"
	ReasonInUse             = "AddressInUse"
	ReasonOutside           = "AddressOutsidePools"
	ReasonReserved          = "AddressReserved"
	ReasonExcluded          = "AddressExcluded"
	ReasonDraining          = "RangeDraining"
	ReasonWrongFamily       = "WrongFamily"
	ReasonBadRequest        = "InvalidRequest"
	ReasonPortConflict      = "PortConflict"
	ReasonSharingConflict   = "SharingConflict"
	ReasonOtherNamespace    = "SharedInAnotherNamespace"
	ReasonMultiPool         = "MultiPoolRefused"
	ReasonMultiPoolMismatch = "MultiPoolMismatch"
)

// Reasons returns every reason that a condition can have.
func Reasons() []string {
	return []string{
		ReasonAllocated, ReasonPartial, ReasonConflict, ReasonDeleting,
		ReasonExhausted, ReasonUnknown, ReasonNoPool, ReasonDenied, ReasonAmbiguous, ReasonNamespaceUnknown,
		ReasonInUse, ReasonOutside, ReasonReserved, ReasonExcluded, ReasonDraining, ReasonWrongFamily, ReasonBadRequest,
		ReasonPortConflict, ReasonSharingConflict, ReasonOtherNamespace, ReasonMultiPool, ReasonMultiPoolMismatch,
	}
}
