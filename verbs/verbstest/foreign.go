package verbstest

import "rbd/verbs"

// foreignCQ and foreignPD are objects of no provider that is tested.
type (
	foreignCQ struct{ verbs.CQ }
	foreignPD struct{ verbs.PD }
)
