# limit: process,thread | perl|late_worker
# Three children get a share of the words each; the second one's is ten times as long.
use strict; use warnings; use Time::HiRes 'time';
my $until = time + $ARGV[0];
my @shares = (3000, 60000, 3000);
while (time < $until) {
    my @pids;
    for my $share (@shares) {
        my $pid = fork;
        if (!$pid) {
            my %seen;
            $seen{($_ * 7919) % 5003}++ for 1 .. $share;
            exit 0;
        }
        push @pids, $pid;
    }
    waitpid $_, 0 for @pids;
}
