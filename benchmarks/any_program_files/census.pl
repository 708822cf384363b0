# limit: process,thread | tabulate|perl
use strict;
use warnings;
use Time::HiRes qw(time);

my $seconds = @ARGV ? $ARGV[-1] : 6;
pipe(my $forms_in,  my $forms_out) or die;
pipe(my $tables_in, my $tables_out) or die;

unless (fork) {
    $0 = 'tabulate';
    close $forms_out;
    close $tables_in;
    my %by;
    while (my $form = <$forms_in>) {
        chomp $form;
        my %f = map { split /=/, $_, 2 } split /;/, $form;
        for my $pass (1 .. 4) {
            for my $k (sort keys %f) {
                (my $v = $f{$k}) =~ s/(\d+)/sprintf '%04d', $1 % 1000/ge;
                $by{"$k:$v"} += length $v;
            }
        }
        my $sum = 0;
        $sum += $by{$_} for grep { /^age/ } keys %by;
        print {$tables_out} "$f{id} $sum\n";
        %by = () if keys %by > 500;
    }
    exit 0;
}
unless (fork) {
    $0 = 'publish';
    close $forms_out;
    close $tables_out;
    my ($n, $top) = (0, 0);
    while (<$tables_in>) {
        my ($id, $sum) = split;
        $n++;
        $top = $sum if $sum > $top;
    }
    print "$n tables, top $top\n";
    exit 0;
}
close $forms_in;
close $tables_in;
close $tables_out;
my $until = time + $seconds;
for (my $id = 1; time < $until; $id++) {
    print {$forms_out} join(';', "id=$id", 'age=' . $id * 7 % 98, 'street=Elm ' . $id % 40, 'rooms=' . $id % 9, 'pets=' . $id % 4), "\n";
}
close $forms_out;
1 while wait != -1;
