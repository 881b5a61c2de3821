/* Sends whatever comes in out of one interface, or straight into the namespace at its other end.
 * The floor of steering: nothing is looked at, everything was known when the cables were laid. */
static long (*redirect)(unsigned int index, unsigned long long flags) = (void *)23;
static long (*change_type)(void *packet, unsigned int type) = (void *)32;
static long (*redirect_peer)(unsigned int index, unsigned long long flags) = (void *)155;

__attribute__((section("tc"), used)) int steer(void *packet)
{
#ifdef INTO_PEER
	change_type(packet, 0); /* it was somebody else's on this side */
	return redirect_peer(TARGET, 0);
#else
	return redirect(TARGET, 0);
#endif
}

__attribute__((section("license"), used)) char terms[] = "GPL";
